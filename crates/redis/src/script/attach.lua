-- Takes a session over to another connection, so that no join of an older one takes effect any more. ARGV: session,
-- timeout in ms, epoch. Answers: `ok` and the least guard; `gone`; `stale` if a later connection has it.
local sid, epoch = ARGV[1], tonumber(ARGV[3])
allow_without_memory()
keep_clock()
if not is_alive(sid) then return { 'gone' } end
if (tonumber(redis.call('HGET', session_key(sid), 'ep')) or 0) > epoch then return { 'stale' } end
redis.call('HSET', session_key(sid), 'ep', ARGV[3])
renew(sid, tonumber(ARGV[2]))
return { 'ok', guard }
