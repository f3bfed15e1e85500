-- Ends a session with all its contenders, or a piece of it, and removes what dead ones have left. ARGV: session. Answers:
-- 1 if some of it is left.
local sid = ARGV[1]
allow_without_memory()
keep_clock()
if not redis.call('ZSCORE', sessions, sid) then
  bury_the_dead()
  return 0
end
-- From now on it is dead to all clients.
redis.call('ZADD', sessions, whole(vt), sid)
local _, is_all = bury(sid, BURIED_ENTRIES_MAX)
if not is_all then return 1 end
bury_the_dead()
return 0
