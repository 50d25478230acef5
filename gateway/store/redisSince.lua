-- Documents written (or deleted) after a sequence. Answers the newest sequence, the one up to which deletions are forgotten,
-- 1 where there is more, then name and sequence of each: whole commits, so that who goes on after the last misses none.
-- KEYS: what all names begin with; the list, of writes or of deletions
-- ARGV: the sequence, most of them
local list = KEYS[2]
local most = tonumber(ARGV[2])
local meta = redis.call('HMGET', KEYS[1], 'sequence', 'forgotten')
local answer = { tonumber(meta[1] or 0), tonumber(meta[2] or 0), 0 }
local found = redis.call('ZRANGEBYSCORE', list, '(' .. ARGV[1], '+inf', 'WITHSCORES', 'LIMIT', 0, most)
local last
if #found == 2 * most then
  last = found[#found]
  answer[3] = 1
end
for i = 1, #found, 2 do
  if found[i + 1] ~= last then
    answer[#answer + 1] = found[i]
    answer[#answer + 1] = found[i + 1]
  end
end
if last then
  for _, name in ipairs(redis.call('ZRANGEBYSCORE', list, last, last)) do
    answer[#answer + 1] = name
    answer[#answer + 1] = last
  end
end
return answer
