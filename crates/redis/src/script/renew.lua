-- Renews a session, and removes what dead ones have left. ARGV: session, timeout in ms; then part, name and member of
-- some of its contenders. Answers: `ok`, the least guard, 1 if more is to be removed, and the tickets of those that are
-- gone; or `gone`.
local sid = ARGV[1]
allow_without_memory()
keep_clock()
if not is_alive(sid) then return { 'gone' } end
renew(sid, tonumber(ARGV[2]))
local has_more = remove_the_dead()
local answer = { 'ok', guard, has_more }
for at = 3, #ARGV, 3 do
  local part, name, member = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  local is_queued = redis.call('ZSCORE', queue_key(part, name, mode_of(member)), member)
  if not is_queued or redis.call('EXISTS', contender_key(ticket_of(member))) == 0 then
    -- Half of it was deleted by hand: those that wait for it are told by the other half.
    take_out(part, name, member)
    answer[#answer + 1] = ticket_of(member)
  end
end
for _, place in ipairs(lost) do
  take_out(unpack(place))
  answer[#answer + 1] = ticket_of(place[3])
end
return answer
