-- Makes a request of a contender of any client. ARGV: part, name, member, `yield` with the request, or `break`. Answers: 1
-- if the contender was there.
local part, name, member = ARGV[1], ARGV[2], ARGV[3]
allow_without_memory()
local ticket = ticket_of(member)
local found = read_record(redis.call('GET', contender_key(ticket)))
if not found or found.member ~= member or found.part ~= part or found.name ~= name then return 0 end
if found.sid ~= '-' and not is_alive(found.sid) then return 0 end
if ARGV[4] == 'yield' then
  redis.call('SET', contender_key(ticket), record_text(found.sid, part, name, member, ARGV[5], found.record))
  return 1
end
remove(part, name, member)
if found.sid ~= '-' then
  redis.call('ZREM', entries_key(found.sid), entry_text(part, name, member))
  redis.call('HSET', session_key(found.sid), 'x' .. ticket, '1')
end
forget_if_empty(name)
return 1
