-- Ends a session with all its contenders, or a piece of it, and removes what dead ones have left. ARGV: session. Answers:
-- 1 if some of it is left.
local sid = ARGV[1]
allow_without_memory()
keep_clock()
-- From now on it is dead to all clients. If its end was lost, what it has left goes all the same.
redis.call('ZADD', sessions, whole(vt), sid)
local _, is_all = remove_session(sid, REMOVED_ENTRIES_MAX)
if not is_all then return 1 end
remove_the_dead()
return 0
