/**
 * The scripts of the counters. The arithmetic is that of `gateway/limits`; Infinity is 0 here. Of the commands and of Lua
 * they use what Redis 5 has (`commands.ts`).
 *
 * A counter is one string: a letter (b bucket, f fixed window, l sliding log, q quota), the count, the end, and, where
 * smoothing works, when it was seen last, the allowance and the time after which that may move. A sliding log has a list
 * beside it: the milliseconds at which requests came. Every key has a time to live that outlives what it says.
 */

/**
 * The moment, in milliseconds since the epoch: the server's, or a test's. Behind it lie a while that keys live longer (a
 * test's time may stand), and the longest that they live: a quota that nobody asks for so long comes from the ledger.
 */
export const moment = `
local call, match, format = redis.call, string.match, string.format
local floor, max, min, never = math.floor, math.max, math.min, math.huge
local function clock(given)
  local now = tonumber(given)
  if now > 0 then return now, 60000 end
  local time = call('TIME')
  return time[1] * 1000 + floor(time[2] / 1000), 1000
end
local function lives(ms, slack)
  return min(ms, 34560000000) + slack
end
local function orNever(text)
  local n = tonumber(text)
  if n == 0 then return never end
  return n
end
local function told(stop)
  if stop == never then return 0 end
  return stop
end
`

/**
 * Takes quota counters back (`r`: the higher count and the earlier end win) or adds to them (`a`). KEYS: the counters.
 * ARGV[1]: mode, the moment or 0, whether the ledger was asked; ARGV[2…]: count and end.
 *
 * Answers indexes of counters that are to be added to and are not there, when nothing was changed.
 */
export const mergeScript = `${moment}
local mode, at, asked = match(ARGV[1], '^(%a) (%d+) (%d)$')
local now, slack = clock(at)
local values = call('MGET', unpack(KEYS))
local missing = {}
if mode == 'a' and asked == '0' then
  for i = 1, #KEYS do
    if not (values[i] and match(values[i], '^q %d+ %d+')) then missing[#missing + 1] = i - 1 end
  end
end
if #missing > 0 then return missing end
for i = 1, #KEYS do
  local count, ends = match(ARGV[i + 1], '^(%d+) (%d+)$')
  count, ends = tonumber(count), orNever(ends)
  if now < ends and count > 0 then
    local n, stop = match(values[i] or '', '^q (%d+) (%d+)')
    if n and now < orNever(stop) then
      ends = min(ends, orNever(stop))
      count = mode == 'a' and n + count or max(n, count)
    end
    call('SET', KEYS[i], format('q %.0f %.0f', count, told(ends)), 'PX', lives(ends - now, slack))
  end
end
return missing
`

/**
 * KEYS: a counter, and its list if it is a sliding log. ARGV: the moment or 0, the charge, units, when they were taken
 * (0: nobody knows).
 */
export const giveBackScript = `${moment}
local now, slack = clock(ARGV[1])
local kind, _, per = match(ARGV[2], '^(%a) (%d+) (%d+)')
local units, at = tonumber(ARGV[3]), tonumber(ARGV[4])
if kind == 'r' then kind = 'l' end
local value = redis.pcall('GET', KEYS[1])
if type(value) ~= 'string' then return 0 end
local was, n, stop, more = match(value, '^(%a) (%d+) (%d+)(.*)$')
if was ~= kind then return 0 end
if kind == 'l' then
  if call('TYPE', KEYS[2]).ok ~= 'list' then return 0 end
  if at == 0 then call('LTRIM', KEYS[2], 0, -units - 1) else call('LREM', KEYS[2], -units, format('%.0f', at)) end
  return 1
end
stop = orNever(stop)
if now > stop or (now == stop and kind ~= 'b') then return 0 end
if at < stop - orNever(per) and at > 0 and stop < never then return 0 end
local left = call('PTTL', KEYS[1])
if left < 1 then return 0 end
call('SET', KEYS[1], format('%s %.0f %.0f%s', kind, max(0, n - units), told(stop), more), 'PX', left)
return 1
`

/** KEYS: all that is to go. ARGV: the channel, and what is said there. */
export const forgetScript = `
redis.call('UNLINK', unpack(KEYS))
redis.call('PUBLISH', ARGV[1], ARGV[2])
`

/** KEYS: the set of members. ARGV: this one, for how many milliseconds it lives. Answers how many live. */
export const aliveScript = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local is = redis.call('TYPE', KEYS[1]).ok
if is ~= 'none' and is ~= 'zset' then redis.call('UNLINK', KEYS[1]) end
redis.call('ZADD', KEYS[1], string.format('%.0f', now), ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now - ARGV[2]))
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return redis.call('ZCARD', KEYS[1])
`
