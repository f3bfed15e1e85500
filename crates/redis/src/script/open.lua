-- Opens a session. ARGV: session, timeout, guard (both in ms), owner. Answers: `ok`, the least guard.
local sid, timeout, own_guard = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
keep_clock()
-- What is needed only later is tried now, on a key that is not there: a user that lacked a right could join and not leave.
-- Behind the first write, which needs memory.
local none = base .. ':-'
redis.call('GET', none)
redis.call('EXISTS', none)
redis.call('HGET', none, '-')
redis.call('ZSCORE', none, '-')
redis.call('ZRANGEBYSCORE', none, 0, 0)
redis.call('ZRANGEBYLEX', none, '-', '-')
redis.call('HDEL', none, '-')
redis.call('ZREM', none, '-')
redis.call('PEXPIRE', none, 1)
redis.call('DEL', none)
remove_the_dead()
renew(sid, timeout)
redis.call('ZADD', guards, whole(own_guard), sid)
keep_guard()
redis.call('HSET', session_key(sid), 'ep', '1', 'T', ARGV[2], 'owner', ARGV[4])
redis.call('SET', alive_key(sid), '1')
return { 'ok', guard }
