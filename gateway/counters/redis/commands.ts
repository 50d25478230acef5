/**
 * Every command that the gateway's counters send or call in a script, in the form that they use, with the first version
 * of Redis that has it. All of them are in Redis 5 and in every Valkey (which began as Redis 7.2).
 */
export const commandsUsed: Readonly<Record<string, string>> = {
  auth: '1.0.0 (a user beside the password: 6.0.0)',
  'cluster|info': '3.0.0',
  'cluster|slots': '3.0.0',
  eval: '2.6.0',
  evalsha: '2.6.0',
  exists: '1.0.0',
  get: '1.0.0',
  info: '1.0.0',
  lindex: '1.0.0',
  llen: '1.0.0',
  lrem: '1.0.0',
  ltrim: '1.0.0',
  mget: '1.0.0',
  pexpire: '2.6.0',
  ping: '1.0.0',
  pttl: '2.6.0',
  publish: '2.0.0',
  rpush: '2.4.0 (several values)',
  select: '1.0.0',
  set: '2.6.12 (with PX)',
  subscribe: '2.0.0',
  time: '2.6.0; before a write in a script: 5.0.0',
  type: '1.0.0',
  unlink: '4.0.0',
  unsubscribe: '2.0.0',
  xadd: '5.0.0',
  xrange: '5.0.0',
  zadd: '1.2.0',
  zcard: '1.2.0',
  zrem: '1.2.0',
  zremrangebyscore: '1.2.0'
}
