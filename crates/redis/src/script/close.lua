-- Ends a session with all its contenders, or a piece of it. ARGV: session. Answers: 1 if some of it is left.
local sid = ARGV[1]
allow_without_memory()
keep_clock()
if not redis.call('ZSCORE', sessions, sid) then return 0 end
-- From now on it is dead to all clients.
redis.call('ZADD', sessions, whole(vt), sid)
local _, is_all = bury(sid, BURIED_ENTRIES_MAX)
return is_all and 0 or 1
