import { moment } from './lua.ts'

/**
 * KEYS: the counter of each charge, then the list of each sliding log among them. ARGV[1]: `c` or `l` (look), units, the
 * moment or 0, whether the ledger was asked, and then, where given, the most that each may take. ARGV[2…]: the charges
 * (`plan.ts`).
 *
 * Answers numbers in one text: the moment, the index that refused or -1, what was found broken; then six for each standing: allowed,
 * remaining, reset, smoothed (1 up, 2 down), taken, count. Or -2 as the second, and indexes of quotas that are not there,
 * when nothing was changed. All is read before the first write, so that whatever fails has counted nothing.
 */
export const chargeScript = `${moment}
local looks, units, at, asked, most = false, 1, '0', '0', {}
if ARGV[1] ~= 'c 1 0 0' then
  local mode, rest
  mode, units, at, asked, rest = match(ARGV[1], '^(%a) (%d+) (%d+) (%d)(.*)$')
  looks = mode == 'l'
  units = tonumber(units)
  for n in string.gmatch(rest, '%d+') do most[#most + 1] = tonumber(n) end
end
local now, slack = clock(at)
local charges = #ARGV - 1
local lists = charges
local values = {}
if charges > 0 then values = call('MGET', unpack(KEYS, 1, charges)) end
local answer = {now, -1, 0}
local sets, logs = {}, {}

local function set(key, value, ms)
  local n = #sets
  sets[n + 1], sets[n + 2], sets[n + 3] = key, value, lives(ms, slack)
end

local function entry(list, index)
  return tonumber(call('LINDEX', list, index)) or 0
end

-- How many entries of a list came at the bound or before. The first ones are looked at first.
local function older(list, length, newest, bound)
  if length == 0 or entry(list, 0) > bound then return 0 end
  if newest <= bound then return length end
  local low, step = 0, 1
  while low + step < length and entry(list, low + step) <= bound do
    low = low + step
    step = step * 2
  end
  local high = min(low + step, length - 1)
  while high - low > 1 do
    local middle = floor((low + high) / 2)
    if entry(list, middle) <= bound then low = middle else high = middle end
  end
  return low + 1
end

for i = 1, charges do
  local key, value = KEYS[i], values[i]
  local kind, allowed, per, slope = match(ARGV[i + 1], '^(%a) (%d+) (%d+)(.*)$')
  local counts = kind == 'r'
  if counts then kind = 'l' end
  allowed = tonumber(allowed)
  local was, n, stop, more
  if value then
    was, n, stop, more = match(value, '^(%a) (%d+) (%d+)(.*)$')
    if not was then answer[3] = answer[3] + 1 end
  elseif call('TYPE', key).ok ~= 'none' then
    answer[3] = answer[3] + 1
  end
  local passes, smoothed, remaining, reset, taken = true, 0, 0, 0, 0

  if kind == 'q' then
    if not was and asked == '0' then
      answer = {now, -2, answer[3]}
      for j = i, charges do
        if match(ARGV[j + 1], '^q') and not (values[j] and match(values[j], '^%a %d+ %d+')) then
          answer[#answer + 1] = j - 1
        end
      end
      return table.concat(answer, ' ')
    end
    stop = was == 'q' and orNever(stop) or 0
    local runs = now < stop
    n = runs and tonumber(n) or 0
    local ends = min(runs and stop or never, now + orNever(per))
    if looks then
      passes = n < allowed
      reset = runs and told(ends) or 0
    else
      passes = n + units <= allowed
      local took = units
      if passes then
        if most[i] then took = max(units, min(most[i], allowed - n)) end
        taken = took
      end
      n = n + took
      reset = told(ends)
      set(key, format('q %.0f %.0f', n, reset), ends - now)
    end
    remaining = max(0, allowed - n)
  else
    per = tonumber(per)
    local alive = was == kind
    n = alive and tonumber(n) or 0
    stop = alive and tonumber(stop) or 0
    local list, length, here, left, ends, clear = nil, 0, now, 0, 0, not alive
    if kind == 'l' then
      lists = lists + 1
      list = KEYS[lists]
      local newest = 0
      if alive then
        length = redis.pcall('LLEN', list)
        if type(length) == 'number' then
          newest = length > 0 and entry(list, -1) or 0
        else
          answer[3] = answer[3] + 1
          length = 0
          clear = true
        end
        -- A clock that was set back by little stands still; by more: when these came, nobody knows.
        if newest > now and newest - now <= 1000 then here = newest end
        if newest > here then
          length = 0
          clear = true
        end
        left = older(list, length, newest, here - per)
      end
      n = length - left
    elseif kind == 'b' then
      local runs = alive and now <= stop
      if not runs then n = 0 end
      ends = min(runs and stop or never, now + per)
      if looks and not runs then ends = 0 end
    else
      if not (now < stop) then n = 0 end
      ends = (floor(now / per) + 1) * per
    end

    local allowance, idle, state = allowed, 0, ''
    if slope ~= '' then
      local threshold, hundredths, step, delay = match(slope, '^ (%d+) (%d+) (%d+) (%d+)$')
      threshold, step, delay = tonumber(threshold), tonumber(step), tonumber(delay)
      local seen, current, after
      if alive then seen, current, after = match(more, '^ (%d+) (%d+) (%d+)$') end
      local held = 0
      if current and now - tonumber(seen) < 2 * delay then
        held = max(threshold, min(tonumber(current), allowed))
        after = tonumber(after)
      end
      allowance = held
      if held == 0 then
        allowance = threshold
      elseif now > after then
        local reach = hundredths * step
        if 100 * n >= 100 * held - reach then allowance = min(held + step, allowed) end
        if allowance == held and 100 * n <= 100 * (held - step) - reach then allowance = max(held - step, threshold) end
      end
      if allowance ~= held then
        after = now + delay
        if held ~= 0 and not looks then smoothed = allowance > held and 1 or 2 end
      end
      idle = 2 * delay
      state = format(' %.0f %.0f %.0f', now, allowance, after)
    end

    passes = n < allowance
    if passes and not looks then
      taken = 1
      if most[i] then taken = max(1, min(most[i], allowance - n)) end
    end
    if kind == 'l' then
      local push, drop = 0, left
      if not looks then
        taken = min(taken, 1000)
        push = (not passes and counts) and 1 or taken
        -- Of more requests than the rate, the newest decide alone.
        if push > 0 then drop = left + max(0, n + push - allowed) end
        n = length - drop + push
        local ms = lives(max(per, idle), slack)
        set(key, 'l 0 0' .. state, max(per, idle))
        logs[#logs + 1] = {list, clear or drop >= length, drop, push, format('%.0f', here), ms}
      end
      remaining = passes and allowance - n or 0
      reset = now
      if n >= allowance then
        local blocker = drop + n - allowance
        reset = (blocker < length and entry(list, blocker) or here) + per
      end
    else
      n = n + taken
      remaining = passes and allowance - n or 0
      reset = ends
      if not looks then set(key, format('%s %.0f %.0f%s', kind, n, ends, state), max(ends - now, idle)) end
    end
    allowed = allowance
  end

  local a = #answer
  answer[a + 1], answer[a + 2], answer[a + 3] = allowed, remaining, reset
  answer[a + 4], answer[a + 5], answer[a + 6] = smoothed, taken, n
  if not passes then
    answer[2] = i - 1
    break
  end
end

for i = 1, #sets, 3 do call('SET', sets[i], sets[i + 1], 'PX', sets[i + 2]) end
for i = 1, #logs do
  local list, clear, drop, push, here, ms = unpack(logs[i])
  if clear then
    call('UNLINK', list)
  elseif drop > 0 then
    call('LTRIM', list, drop, -1)
  end
  if push == 1 then
    call('RPUSH', list, here)
  elseif push > 1 then
    local entries = {}
    for j = 1, push do entries[j] = here end
    call('RPUSH', list, unpack(entries))
  end
  call('PEXPIRE', list, ms)
end
return table.concat(answer, ' ')
`
