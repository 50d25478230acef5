/**
 * What lies in Redis of one idempotency key is a hash: `d` digest of the request; while one is under way `o` its owner and
 * `u` until when that counts (ms of the server's clock); `p` what came of some of its messages; `f` the final answer.
 * It expires by itself. Each script has this one key, so a cluster takes them as they are.
 */

const now = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)`

/**
 * KEYS: the hash. ARGV: digest, owner, ms of the lease. Answers `yours`; `partial` and what came; `final` and the answer;
 * `other`; or `busy`: another has it under way.
 */
export const claimScript = `${now}
local kept = redis.call('HMGET', KEYS[1], 'd', 'u', 'p', 'f')
local digest, until_, partial, final = kept[1], tonumber(kept[2] or 0), kept[3], kept[4]
local isUnderWay = until_ > now
if digest and digest ~= ARGV[1] and (isUnderWay or partial or final) then return {'other'} end
if final then return {'final', final} end
if isUnderWay then return {'busy'} end
redis.call('HSET', KEYS[1], 'd', ARGV[1], 'o', ARGV[2], 'u', string.format('%.0f', now + ARGV[3]))
if partial then
  if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[3]) then redis.call('PEXPIRE', KEYS[1], ARGV[3]) end
  return {'partial', partial}
end
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return {'yours'}`

/** KEYS: the hash. ARGV: digest. Answers `busy`; `final` and the answer; or `free`: whoever claims will hear. */
export const lookScript = `${now}
local kept = redis.call('HMGET', KEYS[1], 'd', 'u', 'f')
if kept[1] ~= ARGV[1] then return {'free'} end
if kept[3] then return {'final', kept[3]} end
if tonumber(kept[2] or 0) > now then return {'busy'} end
return {'free'}`

/** KEYS: the hash. ARGV: digest, owner, ms of the lease. A server that has forgotten it (a restart) learns it again. */
export const renewScript = `${now}
local owner = redis.call('HGET', KEYS[1], 'o')
if owner and owner ~= ARGV[2] then return 0 end
if not owner and redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('HSET', KEYS[1], 'd', ARGV[1], 'o', ARGV[2], 'u', string.format('%.0f', now + ARGV[3]))
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[3]) then redis.call('PEXPIRE', KEYS[1], ARGV[3]) end
return 1`

/**
 * KEYS: the hash. ARGV: digest, owner, field (`f`, `p`, '': forget it, `o`: as before the claim), value, ms to keep it.
 * Whoever lost it to another meanwhile changes nothing.
 */
export const settleScript = `
local owner = redis.call('HGET', KEYS[1], 'o')
if owner and owner ~= ARGV[2] then return 0 end
if not owner and redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
if ARGV[3] == 'o' and redis.call('HEXISTS', KEYS[1], 'p') == 1 then
  redis.call('HDEL', KEYS[1], 'o', 'u')
  return 1
end
redis.call('DEL', KEYS[1])
if ARGV[3] == 'f' or ARGV[3] == 'p' then
  redis.call('HSET', KEYS[1], 'd', ARGV[1], ARGV[3], ARGV[4])
  redis.call('PEXPIRE', KEYS[1], ARGV[5])
end
return 1`
