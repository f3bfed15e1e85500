-- Opens a session. ARGV: session, timeout, guard (both in ms), owner. Answers: `ok`, the least guard.
local sid, timeout, own_guard = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
keep_clock()
bury_the_dead()
renew(sid, timeout)
redis.call('ZADD', guards, whole(own_guard), sid)
keep_guard()
redis.call('HSET', session_key(sid), 'ep', '1', 'T', ARGV[2], 'owner', ARGV[4])
redis.call('SET', alive_key(sid), '1')
return { 'ok', guard }
