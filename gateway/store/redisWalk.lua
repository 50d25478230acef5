-- The next documents of a list after a place. Answers the place to go on after ('' at the end), the newest sequence, then
-- id and text of each document; of a search: id and place.
-- KEYS: what all names begin with; the list
-- ARGV: kind, the place ('' for the beginning), '1' for newest first, 'bodies', 'ids' or
-- 'search', most documents, bytes after which it is enough, text to be found in the id
local base, kind = KEYS[1], ARGV[1]
local most, bytes = tonumber(ARGV[5]), tonumber(ARGV[6])
local found
if ARGV[3] == '1' then
  local from = ARGV[2] == '' and '+inf' or '(' .. ARGV[2]
  found = redis.call('ZREVRANGEBYSCORE', KEYS[2], from, '-inf', 'WITHSCORES', 'LIMIT', 0, most)
else
  local from = ARGV[2] == '' and '-inf' or '(' .. ARGV[2]
  found = redis.call('ZRANGEBYSCORE', KEYS[2], from, '+inf', 'WITHSCORES', 'LIMIT', 0, most)
end
local answer = { #found == 2 * most and found[#found] or '', tonumber(redis.call('HGET', base, 'sequence') or 0) }
local length = 0
for i = 1, #found, 2 do
  local id = found[i]
  if ARGV[4] == 'search' then
    if string.find(id, ARGV[7], 1, true) then
      answer[#answer + 1] = id
      answer[#answer + 1] = found[i + 1]
    end
  else
    local text = redis.call('GET', base .. ':d:' .. kind .. ':' .. id)
    -- In a cluster, its slot moves just now, and this document is gone ahead.
    if not text then return redis.error_reply('TRYAGAIN documents are being moved') end
    if ARGV[4] == 'ids' then text = string.match(text, '^%d+ %d+ %d+ %S* ') .. 'null' end
    answer[#answer + 1] = id
    answer[#answer + 1] = text
    length = length + #text
    if length >= bytes and i + 1 < #found then
      answer[1] = found[i + 1]
      break
    end
  end
end
return answer
