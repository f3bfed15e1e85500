-- Says why a contender is gone. ARGV: session, ticket. Answers: `stands`, `broken`, `gone` with its session, `removed`.
local sid, ticket = ARGV[1], ARGV[2]
if not is_alive(sid) then return 'gone' end
if redis.call('EXISTS', contender_key(ticket)) == 1 then return 'stands' end
return redis.call('HGET', session_key(sid), 'x' .. ticket) and 'broken' or 'removed'
