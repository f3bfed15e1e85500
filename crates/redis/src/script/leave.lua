-- Takes a contender out of its queue. ARGV: session, part, name, ticket, its member or an empty text if the join was not
-- answered. Answers: `left`; or why it was gone before: `broken`, `gone` with its session, `removed`.
local sid, part, name, ticket, member = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local found = read_record(redis.call('GET', contender_key(ticket)))
if found and (found.part ~= part or found.name ~= name) then return 'left' end
if found then member = found.member end
if member ~= '' then
  remove(part, name, member)
  redis.call('ZREM', entries_key(sid), entry_text(part, name, member))
  forget_if_empty(name)
end
local was_broken = not found and redis.call('HDEL', session_key(sid), 'x' .. ticket) == 1
local outlives_session = member ~= '' and session_of(member) == '-'
if not outlives_session and not is_alive(sid) then return 'gone' end
if found then return 'left' end
return was_broken and 'broken' or 'removed'
