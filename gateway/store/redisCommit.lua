-- One commit: all writes or none. Answers the sequence, or -n where write n expects another revision.
-- KEYS[1]: what all names begin with (see redisCalls.ts). Then all that the writes touch, so that the server itself refuses
-- while a slot of a cluster moves: a document that has already moved must not look as if it were not there.
-- ARGV: how many deletions are kept; then six of each write: kind, id, organisation, body ('' deletes), expected revision
-- or '', 'count renews' of a count that is only raised or ''
local base = KEYS[1]
local meta = redis.call('HMGET', base, 'sequence', 'place', 'born')
local sequence = tonumber(meta[1] or 0)
local place = tonumber(meta[2] or 0)

local function text(number)
  return string.format('%.0f', number)
end

local function read(name)
  local document = { name = name }
  local key = base .. ':d:' .. name
  local form = '^(%d+) (%d+) %d+ (%S*) '
  local head = redis.call('GETRANGE', key, 0, 255)
  local at, rev, org = string.match(head, form)
  if not at and head ~= '' then at, rev, org = string.match(redis.call('GET', key), form) end
  if at then
    document.place, document.rev, document.org = tonumber(at), tonumber(rev), org
    document.placeBefore, document.orgBefore = document.place, org
  end
  return document
end

local function raises(document, given)
  if not document.rev then return true end
  local body = document.body
  if not body then body = string.match(redis.call('GET', base .. ':d:' .. document.name), '^%d+ %d+ %d+ %S* (.*)$') end
  local kept = cjson.decode(body)
  local count, renews = string.match(given, '^(%S+) (%S+)$')
  count, renews = tonumber(count), tonumber(renews)
  if kept.renews == renews then return kept.count < count end
  return kept.renews ~= 0 and (renews == 0 or kept.renews < renews)
end

-- What the writes come to. Nothing is written yet, as a script that fails keeps what it has written.
local documents, inOrder = {}, {}
local changes = false
for i = 2, #ARGV, 6 do
  local kind, id, org, body, expect, raise = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4], ARGV[i + 5]
  local name = kind .. ':' .. id
  local document = documents[name]
  if not document then
    document = read(name)
    document.kind, document.id = kind, id
    documents[name] = document
    inOrder[#inOrder + 1] = document
  end
  if expect ~= '' and tonumber(expect) ~= (document.rev or 0) then return -(i + 4) / 6 end
  if body == '' then
    if document.rev then
      document.rev, document.place, document.body = nil, nil, nil
      document.deleted, changes = true, true
    end
  elseif raise == '' or raises(document, raise) then
    if not document.rev then
      place = place + 1
      document.place = place
    end
    document.rev = (document.rev or 0) + 1
    document.org, document.body, changes = org, body, true
  end
end

-- The one list whose name nobody could know before.
for _, one in ipairs(inOrder) do
  if one.orgBefore and redis.call('EXISTS', base .. ':o:' .. one.kind .. ':' .. one.orgBefore) == 0 then
    return redis.error_reply('TRYAGAIN documents are being moved')
  end
end

if not changes then
  -- Refused where no write would succeed (a replica, a disk that does not take them): who commits nothing wants to know.
  redis.call('DEL', base .. ':nothing')
  return sequence
end
sequence = sequence + 1

local born
if not meta[3] then
  -- Redis 5 and 6 write nothing after asking for the time, unless effects are replicated.
  if redis.replicate_commands then redis.replicate_commands() end
  born = table.concat(redis.call('TIME'), '.')
end

-- What goes into sorted sets and out of them, by their names: a call for many is much faster than a call for each.
local added, removed = {}, {}
local function add(list, score, member)
  local some = added[list] or {}
  added[list] = some
  some[#some + 1] = text(score)
  some[#some + 1] = member
end
local function remove(list, member)
  local some = removed[list] or {}
  removed[list] = some
  some[#some + 1] = member
end
local function each(command, lists)
  for list, some in pairs(lists) do
    for i = 1, #some, 2000 do redis.call(command, list, unpack(some, i, math.min(i + 1999, #some))) end
  end
end

-- What needs room comes first: where there is none, the first such command is refused, and nothing has happened.
for _, one in ipairs(inOrder) do
  if one.body then
    redis.call(
      'SET', base .. ':d:' .. one.name,
      table.concat({ text(one.place), text(one.rev), text(sequence), one.org, one.body }, ' ')
    )
    local moved = one.place ~= one.placeBefore
    if moved then add(base .. ':a:' .. one.kind, one.place, one.id) end
    if one.orgBefore and one.orgBefore ~= one.org then remove(base .. ':o:' .. one.kind .. ':' .. one.orgBefore, one.id) end
    if moved or one.orgBefore ~= one.org then add(base .. ':o:' .. one.kind .. ':' .. one.org, one.place, one.id) end
    add(base .. ':s', sequence, one.name)
    if not one.placeBefore then remove(base .. ':x', one.name) end
  end
end
for _, one in ipairs(inOrder) do
  if one.deleted and not one.rev then
    if one.placeBefore then
      redis.call('DEL', base .. ':d:' .. one.name)
      remove(base .. ':a:' .. one.kind, one.id)
      remove(base .. ':o:' .. one.kind .. ':' .. one.orgBefore, one.id)
      remove(base .. ':s', one.name)
    end
    add(base .. ':x', sequence, one.name)
  end
end
each('ZREM', removed)
each('ZADD', added)
redis.call('HSET', base, 'version', '1', 'sequence', text(sequence), 'place', text(place))
if born then redis.call('HSET', base, 'born', born) end
if added[base .. ':x'] then
  local over = redis.call('ZCARD', base .. ':x') - tonumber(ARGV[1])
  if over > 0 then
    redis.call('HSET', base, 'forgotten', redis.call('ZRANGE', base .. ':x', over - 1, over - 1, 'WITHSCORES')[2])
    redis.call('ZREMRANGEBYRANK', base .. ':x', 0, over - 1)
  end
end
return sequence
