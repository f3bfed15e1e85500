-- Takes a contender out of its queue. ARGV: session, part, name, ticket, its member or an empty text if the join was not
-- answered. What is answered, the end of the script says: `leave_believed.lua` or `leave_judged.lua`.
local sid, part, name, ticket, member = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local was_there = false
if member == '' then
  local found = read_record(redis.call('GET', contender_key(ticket)))
  if found and (found.part ~= part or found.name ~= name) then return 'left' end
  if found then member = found.member end
end
if member ~= '' then
  was_there = remove(part, name, member)
  redis.call('ZREM', entries_key(sid), entry_text(part, name, member))
  forget_if_empty(name)
end
