-- Answers: `left`; or why the contender was gone before: `broken`, `gone` with its session, `removed`.
local was_broken = not was_there and redis.call('HDEL', session_key(sid), 'x' .. ticket) == 1
local outlives_session = member ~= '' and session_of(member) == '-'
if not outlives_session and not is_alive(sid) then return 'gone' end
if was_there then return 'left' end
return was_broken and 'broken' or 'removed'
