-- Documents of a kind as they are now: those asked for, and all that were written or deleted after a sequence. Answers the
-- newest sequence, then id and text of each ('' where it is gone). When there are too many changes: -1 alone.
-- KEYS: what all names begin with, the list of writes, that of deletions; then the documents asked for
-- ARGV: kind, the sequence ('' for none), most changes, '1' for ids alone, then the ids of those asked for
local base, kind, after = KEYS[1], ARGV[1], ARGV[2]
local most = tonumber(ARGV[3])
local answer = { tonumber(redis.call('HGET', base, 'sequence') or 0) }

local function add(id, text)
  if ARGV[4] == '1' and text ~= '' then text = string.match(text, '^%d+ %d+ %d+ %S* ') .. 'null' end
  answer[#answer + 1] = id
  answer[#answer + 1] = text
end

if after ~= '' then
  for i = 2, 3 do
    if redis.call('ZCOUNT', KEYS[i], '(' .. after, '+inf') > most then return { -1 } end
  end
  for i = 2, 3 do
    for _, name in ipairs(redis.call('ZRANGEBYSCORE', KEYS[i], '(' .. after, '+inf')) do
      if string.sub(name, 1, #kind + 1) == kind .. ':' then
        local text = i == 3 and '' or redis.call('GET', base .. ':d:' .. name)
        -- In a cluster, its slot moves just now, and this document is gone ahead.
        if not text then return redis.error_reply('TRYAGAIN documents are being moved') end
        add(string.sub(name, #kind + 2), text)
      end
    end
  end
end
for i = 5, #ARGV do add(ARGV[i], redis.call('GET', KEYS[i - 1]) or '') end
return answer
