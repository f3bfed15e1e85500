-- With the layout `setnx` the first contender of a lock takes a plain lock too: a key that has the lock's name, which
-- others take by `SET key random NX PX`. The value is the key of the contender's record. What is here comes between the
-- common beginning and a script, and extends functions of the former.

takes_plain = true

-- Locks' names are percent-encoded where they are part of our keys. One that is too long for that ends with its digest, and
-- is found in the list of names while it has a contender; else nil.
local DIGESTED = 153
local function plain_key(name)
  if #name == DIGESTED and string.sub(name, 121, 121) == '~' then
    local listed = redis.call('ZRANGEBYLEX', names, '[' .. name .. ' ', '(' .. name .. '!')[1]
    return listed and string.sub(listed, DIGESTED + 2)
  end
  return (string.gsub(name, '%%(%x%x)', function(digits) return string.char(tonumber(digits, 16)) end))
end

-- The plain locks that contenders of a session have taken: name and member of each.
local function held_key(sid) return base .. ':h:' .. sid end
local function held_text(name, member) return name .. ' ' .. member end

local function value_of(member) return contender_key(ticket_of(member)) end

-- Reads a plain lock: nil if it is free, an empty text if another program's data lie there.
local function read_plain(key)
  local value = redis.pcall('GET', key)
  if type(value) ~= 'table' then return value or nil end
  if string.find(value.err, 'WRONGTYPE', 1, true) then return '' end
  -- So that the caller is told.
  return redis.call('GET', key)
end

-- Whether a value is that of a contender of ours that stands no more.
local function is_left_over(value)
  local prefix = contender_key('')
  if string.sub(value, 1, #prefix) ~= prefix then return false end
  local found = read_record(redis.call('GET', value))
  return not found or not stands(found.member)
end

-- The removal of a contender gives its plain lock back. A user who may not leaves it to its time to live.
local remove_place = remove
remove = function(part, name, member)
  if part == 'l' then
    local key = plain_key(name)
    if key and redis.pcall('GET', key) == value_of(member) then redis.pcall('DEL', key) end
    redis.call('ZREM', held_key(session_of(member)), held_text(name, member))
  end
  return remove_place(part, name, member)
end

-- A session's plain locks live as long as it does. One that is another client's, or free, is lost.
local renew_session = renew
renew = function(sid, timeout)
  renew_session(sid, timeout)
  for _, held in ipairs(redis.call('ZRANGE', held_key(sid), 0, -1)) do
    local name, member = string.match(held, '^(%S+) (%S+)$')
    local key = plain_key(name)
    if key and redis.pcall('GET', key) == value_of(member) then
      redis.call('PEXPIRE', key, whole(timeout))
    else
      lost[#lost + 1] = { 'l', name, member }
    end
  end
end

-- Takes a free plain lock for a contender; returns false if that had it before and lost it: another client may have had it
-- since. What outlives its session has no time to live.
local function take(key, name, member)
  local sid = session_of(member)
  allow_without_memory()
  if sid == '-' then
    redis.call('SET', key, value_of(member), 'NX')
    return true
  end
  if redis.call('ZADD', held_key(sid), 'NX', 0, held_text(name, member)) == 0 then return false end
  redis.call('SET', key, value_of(member), 'NX', 'PX', redis.call('HGET', session_key(sid), 'T'))
  return true
end

-- Where the first contender stands among those of a view.
local function first_of(shown)
  local first
  for at = 3, #shown do
    if first == nil or place_of(shown[at]) < place_of(shown[first]) then first = at end
  end
  return first
end

-- A view for the first contender takes the plain lock for it. While another client has that, each view shows it: its time to
-- live in ms, and a digest of its value.
local view_of_queue = view
view = function(part, name, place, is_whole)
  local shown = view_of_queue(part, name, place, is_whole)
  local key, first = part == 'l' and plain_key(name), first_of(shown)
  if not key then return shown end
  local member = first and shown[first]
  local value = read_plain(key)
  if member and value == value_of(member) then return shown end
  local is_free = value == nil or is_left_over(value)
  if is_free and member and (member == place or session_of(member) == '-') then
    if value then
      -- The time by which its session is dead stays so.
      allow_without_memory()
      keep_clock()
      redis.call('DEL', key)
    end
    if not take(key, name, member) then
      take_out(part, name, member)
      table.remove(shown, first)
    end
  elseif not is_free then
    shown[#shown + 1] = '=' .. whole(redis.call('PTTL', key)) .. ' ' .. redis.sha1hex(value)
  end
  return shown
end
