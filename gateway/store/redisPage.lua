-- A short page, of one moment. Answers the total, then id and text of each document.
-- KEYS: what all names begin with; the list
-- ARGV: kind, first rank, last rank, '1' for newest first, '1' for ids alone
local list = KEYS[2]
local ids = redis.call(ARGV[4] == '1' and 'ZREVRANGE' or 'ZRANGE', list, ARGV[2], ARGV[3])
local answer = { redis.call('ZCARD', list) }
for _, id in ipairs(ids) do
  local text = redis.call('GET', KEYS[1] .. ':d:' .. ARGV[1] .. ':' .. id)
  -- In a cluster, its slot moves just now, and this document is gone ahead.
  if not text then return redis.error_reply('TRYAGAIN documents are being moved') end
  if ARGV[5] == '1' then text = string.match(text, '^%d+ %d+ %d+ %S* ') .. 'null' end
  answer[#answer + 1] = id
  answer[#answer + 1] = text
end
return answer
