-- What every script begins with: keys, the service's clock, the end of dead sessions, and views.
--
-- All keys begin with the base, KEYS[1], whose hash tag puts them into one slot. A contender's member is
-- <grant, 14 hexadecimal digits>.<number, 3>:<mode>:<ticket, 32>:<session>, at most 64 bytes, up to which Redis stores a
-- short sorted set in one piece of memory.

local base = KEYS[1]
local sessions = base .. ':ss'
local guards = base .. ':g'
local names = base .. ':n'

-- How much of the dead one call removes: others wait for the server meanwhile.
local BURIED_SESSIONS_MAX = 8
local REMOVED_ENTRIES_MAX = 200
-- A queue of so many contenders is shown whole, to any caller.
local SHORT_MAX = 16
-- How many contenders are read at once where those of dead sessions are passed over.
local STEP = 16
-- How many contenders ahead of a place decide, of each mode.
local NEAREST = 2
-- The greatest number of contenders beside one contender: three hexadecimal digits.
local BESIDE_MAX = 4095
-- The longest session timeout, in milliseconds.
local TIMEOUT_MAX = 86400000
-- The least guard that any session may have, in milliseconds: that of the shortest timeout.
local GUARD_MIN = 666
-- Up to which numbers are exact.
local WHOLE_MAX = 9007199254740992

local MODES = { l = { 'm', 'r', 'w', 'c', 'b' }, p = { 'p' }, g = { 'g' } }
local OPPOSITE = { l = { 'p', 'g' }, p = { 'l' }, g = { 'l' } }

local function contender_key(ticket) return base .. ':c:' .. ticket end
local function session_key(sid) return base .. ':s:' .. sid end
local function alive_key(sid) return base .. ':a:' .. sid end
local function entries_key(sid) return base .. ':t:' .. sid end
local function queue_key(part, name, mode) return base .. ':q:' .. part .. ':' .. name .. ':' .. mode end
local function value_key(part, name) return base .. ':v:' .. part .. ':' .. name end

local function grant_of(member) return tonumber(string.sub(member, 1, 14), 16) end
local function number_of(member) return tonumber(string.sub(member, 16, 18), 16) end
local function mode_of(member) return string.sub(member, 20, 20) end
local function ticket_of(member) return string.sub(member, 22, 53) end
local function session_of(member) return string.sub(member, 55) end
local function place_of(member) return string.sub(member, 1, 18) end

-- A whole number as a text. Commands take numbers too, but write them with 17 digits, which takes longer.
local function whole(number) return string.format('%d', number) end

-- The service's clock. `vt` goes on with the server's clock, but by no more than `g` between two calls, the least guard of
-- all sessions: no jump of that clock, and no standstill, ends sessions.
local time = redis.call('TIME')
local us = time[1] * 1000000 + time[2]
local ms = math.floor(us / 1000)
local head = redis.call('HMGET', base, 'tok', 'vt', 'seen', 'g')
local token, vt, guard, was_lost =
  tonumber(head[1]) or 0, tonumber(head[2]), tonumber(head[4]) or GUARD_MIN, not tonumber(head[2])
if was_lost then
  -- Where only this key was lost, no session may end early: it was later than the renewal of the one that ends first.
  local all = redis.call('ZRANGE', sessions, 0, -1, 'WITHSCORES')
  local timeout = all[1] and tonumber(redis.call('HGET', session_key(all[1]), 'T'))
  vt = all[1] and math.max(tonumber(all[2]) - (timeout or TIMEOUT_MAX), 0) or 0
  -- And no contender may come ahead of one that is there, also if the server's clock was set back meanwhile.
  for at = 1, #all, 2 do
    token = math.max(token, tonumber(redis.call('ZRANGE', entries_key(all[at]), -1, -1, 'WITHSCORES')[2]) or 0)
  end
end
vt = vt + math.max(0, math.min(ms - (tonumber(head[3]) or ms), guard))

local function keep_token()
  redis.call('HSET', base, 'tok', whole(token))
end

local function keep_clock()
  redis.call('HSET', base, 'vt', whole(vt), 'seen', whole(ms), 'lay', '1')
  if was_lost and token > 0 then keep_token() end
end

-- The server's clock, or the next number, whichever is greater. A clock centuries ahead counts for nothing: numbers behind
-- it would not be exact.
local function next_token()
  token = math.max(token + 1, us < WHOLE_MAX / 2 and us or 0)
  return token
end

-- Where an earlier call of this millisecond has kept the clock, it stands.
local has_gone_on = not head[2] or tonumber(head[3]) ~= ms

local function keep_clock_and_token()
  if not has_gone_on then return keep_token() end
  redis.call('HSET', base, 'vt', whole(vt), 'seen', whole(ms), 'lay', '1', 'tok', whole(token))
end

-- A script whose first write needs no memory may go on to write where the server's memory is full.
local function allow_without_memory()
  redis.call('PEXPIRE', base .. ':-', 1)
end

-- Whether a session is alive, and when it ends.
local function is_alive(sid)
  local ends = tonumber(redis.call('ZSCORE', sessions, sid))
  return ends ~= nil and ends > vt, ends
end

-- What a renewal finds to be lost: part, name and member of each.
local lost = {}

-- Whether the only contender of a lock has to take a plain lock too.
local takes_plain = false

local function renew(sid, timeout)
  redis.call('ZADD', sessions, whole(vt + timeout), sid)
end

-- Finds the least guard anew. Where some of them were lost, it is taken for the least that there can be.
local function keep_guard()
  local least = redis.call('ZRANGE', guards, 0, 0, 'WITHSCORES')[2]
  local is_whole = redis.call('ZCARD', guards) >= redis.call('ZCARD', sessions)
  guard = is_whole and tonumber(least) or GUARD_MIN
  redis.call('HSET', base, 'g', whole(guard))
end

-- The first line of a contender's record: its session, or `-`; part, name and member. The second: what it was asked to
-- give up for. The rest is for people.
local function read_record(text)
  local sid, part, name, member, revocation, record = string.match(text or '',
    '^(%S+) (%a) (%S+) (%S+)\n([^\n]*)\n(.*)$')
  if sid == nil then return nil end
  return { sid = sid, part = part, name = name, member = member, revocation = revocation, record = record }
end

local function record_text(sid, part, name, member, revocation, record)
  return sid .. ' ' .. part .. ' ' .. name .. ' ' .. member .. '\n' .. revocation .. '\n' .. record
end

local function entry_text(part, name, member) return part .. ' ' .. name .. ' ' .. member end

-- The keys of all queues of a lock. They are written out: a loop over `MODES` takes four times as long.
local function queue_keys(name)
  local line = base .. ':q:l:' .. name
  return line .. ':m', line .. ':r', line .. ':w', line .. ':c', line .. ':b',
    base .. ':q:p:' .. name .. ':p', base .. ':q:g:' .. name .. ':g'
end

-- How many queues of a lock have contenders.
local function queues_in_use(name) return redis.call('EXISTS', queue_keys(name)) end

-- Forgets a lock whose last contender has left, and the number of permits with it.
local function forget_if_empty(name)
  local permits = value_key('p', name)
  local count = redis.call('EXISTS', permits, queue_keys(name))
  -- One key may be that number or a queue.
  if count > 1 or count == 1 and redis.call('EXISTS', permits) == 0 then return end
  if count == 1 then redis.call('DEL', permits) end
  if redis.call('ZREM', names, name) == 0 then
    -- A name that is too long stands behind its digest.
    for _, long in ipairs(redis.call('ZRANGEBYLEX', names, '[' .. name .. ' ', '(' .. name .. '!')) do
      redis.call('ZREM', names, long)
    end
  end
end

-- Takes a contender out of its queue; returns whether its record was there.
local function remove(part, name, member)
  redis.call('ZREM', queue_key(part, name, mode_of(member)), member)
  return redis.call('DEL', contender_key(ticket_of(member))) > 0
end

-- Takes a contender out of its queue, and forgets all else of it.
local function take_out(part, name, member)
  remove(part, name, member)
  redis.call('ZREM', entries_key(session_of(member)), entry_text(part, name, member))
  forget_if_empty(name)
end

-- Ends a session, or a piece of it; returns how many of its contenders were removed, and whether that is all.
local function remove_session(sid, entries_max)
  local entries = redis.call('ZRANGE', entries_key(sid), 0, entries_max - 1)
  local emptied = {}
  for _, entry in ipairs(entries) do
    local part, name, member = string.match(entry, '^(%a) (%S+) (%S+)$')
    remove(part, name, member)
    redis.call('ZREM', entries_key(sid), entry)
    emptied[name] = true
  end
  for name in pairs(emptied) do forget_if_empty(name) end
  if #entries == entries_max then return #entries, false end
  redis.call('DEL', session_key(sid), alive_key(sid), entries_key(sid))
  redis.call('ZREM', sessions, sid)
  redis.call('ZREM', guards, sid)
  keep_guard()
  return #entries, true
end

local function has_dead() return redis.call('ZCOUNT', sessions, '-inf', whole(vt)) > 0 end

-- Removes what dead sessions have left; returns 1 if some of it is left.
local function remove_the_dead()
  if not has_dead() then return 0 end
  local dead = redis.call('ZRANGEBYSCORE', sessions, '-inf', vt, 'LIMIT', 0, BURIED_SESSIONS_MAX)
  local left = REMOVED_ENTRIES_MAX
  for _, sid in ipairs(dead) do
    local count, is_all = remove_session(sid, left)
    left = left - count
    if left <= 0 or not is_all then return 1 end
  end
  return #dead == BURIED_SESSIONS_MAX and 1 or 0
end

-- Views leave out the contenders of sessions that are dead and not removed yet, or lost, and what an operator or an eviction
-- has left of one. A script adds sessions that live, and contenders that it has stored.
local known = { ['-'] = true }
local function stands(member)
  if known[member] then return true end
  local sid = session_of(member)
  if known[sid] == nil then known[sid] = is_alive(sid) or false end
  return known[sid] and redis.call('EXISTS', contender_key(ticket_of(member))) == 1
end

-- Reads up to `count` contenders that stand, from one rank on in steps of +1 or -1.
local function some_from(key, rank, step, count)
  local found = {}
  while #found < count and rank >= 0 do
    local read
    if step > 0 then
      read = redis.call('ZRANGE', key, rank, rank + STEP - 1)
    else
      local from = math.max(rank - STEP + 1, 0)
      local upwards = redis.call('ZRANGE', key, from, rank)
      read = {}
      for at = #upwards, 1, -1 do read[#read + 1] = upwards[at] end
    end
    if #read == 0 then break end
    for _, member in ipairs(read) do
      if #found < count and stands(member) then found[#found + 1] = member end
    end
    rank = rank + step * STEP
  end
  return found
end

-- The mode of the first contender on the other side of a lock, or an empty text.
local function elsewhere(part, name)
  for _, other in ipairs(OPPOSITE[part]) do
    local first
    for _, mode in ipairs(MODES[other]) do
      local found = some_from(queue_key(other, name, mode), 0, 1, 1)[1]
      if found and (first == nil or place_of(found) < place_of(first)) then first = found end
    end
    if first then return mode_of(first) end
  end
  return ''
end

-- How many contenders of one mode stand ahead of a place.
local function count_ahead(key, place)
  if place == '' then return redis.call('ZCARD', key) end
  local score = whole(grant_of(place))
  local count = redis.call('ZCOUNT', key, '-inf', '(' .. score)
  for _, beside in ipairs(redis.call('ZRANGEBYSCORE', key, score, score)) do
    if place_of(beside) < place_of(place) then count = count + 1 end
  end
  return count
end

-- Whether all contenders of a lock are of one mode, that of this member: then its other queues need no look.
local function is_only_mode(part, name, member)
  local own = known[member] and 1 or redis.call('EXISTS', queue_key(part, name, mode_of(member)))
  return queues_in_use(name) == own
end

-- The one contender of a lock, where a script has found that there is no other.
local alone

-- Reads a queue that may be shown whole; nil if it is too long.
local function whole_view(part, name, modes, stranger, count_max)
  local shown, count = { 0, stranger }, 0
  for _, mode in ipairs(modes) do
    local read = redis.call('ZRANGE', queue_key(part, name, mode), 0, count_max)
    count = count + #read
    if count_max >= 0 and count > count_max then return nil end
    for _, member in ipairs(read) do
      if stands(member) then shown[#shown + 1] = member end
    end
  end
  return shown
end

-- What decides for one mode: the first, and the nearest ahead; else the first one behind. Returns how many are left out
-- ahead of the place.
local function show_mode(key, place, shown)
  local ahead = count_ahead(key, place)
  local seen, count = {}, 0
  local function show(members)
    for _, member in ipairs(members) do
      if not seen[member] then
        seen[member] = true
        shown[#shown + 1] = member
        if place == '' or place_of(member) < place_of(place) then count = count + 1 end
      end
    end
  end
  show(some_from(key, ahead - 1, -1, NEAREST))
  show(some_from(key, 0, 1, 1))
  show(some_from(key, ahead, 1, 1))
  return math.max(ahead - count, 0)
end

-- A view: how many contenders ahead of the place are left out, the mode of one elsewhere, and the members that are shown,
-- in no order. `place` is a member, or empty for the tail.
local function view(part, name, place, is_whole)
  if alone then return { 0, '', alone } end
  local modes, stranger = MODES[part], ''
  if place ~= '' and is_only_mode(part, name, place) then
    modes = { mode_of(place) }
  else
    stranger = elsewhere(part, name)
  end
  local whole_shown = whole_view(part, name, modes, stranger, is_whole and -1 or SHORT_MAX)
  if whole_shown then return whole_shown end
  local shown, omitted = { 0, stranger }, 0
  for _, mode in ipairs(modes) do
    omitted = omitted + show_mode(queue_key(part, name, mode), place, shown)
  end
  shown[1] = omitted
  return shown
end
