-- Answers the newest sequence, and a text that is another once another server answers or the store was made anew: an older
-- dump was read, a replica took over, all was flushed.
-- KEYS: what all names begin with
local meta = redis.call('HMGET', KEYS[1], 'sequence', 'born')
-- Where asking is forbidden, connections tell of it.
local info = redis.pcall('INFO', 'server')
local server = type(info) == 'string' and string.match(info, 'run_id:(%w+)') or ''
return { tonumber(meta[1] or 0), server .. ' ' .. (meta[2] or '') }
