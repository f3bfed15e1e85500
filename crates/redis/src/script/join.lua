-- Takes places, all or none, and renews. ARGV: session, epoch, timeout in ms, part, name, the name in the list of names,
-- `whole` or `around`; then of each entry mode, ticket, the member beside which it stands or an empty text, `s` or `p` for
-- one that outlives its session, and its record. Answers: `ok`, the members (an empty text for one that is gone again),
-- the view, the least guard; or, of the only contender of a lock, the text `ok <member> <guard>`; or `gone`, `stale`,
-- `anchor` or `full`.
local sid, part, name = ARGV[1], ARGV[4], ARGV[5]
local FIRST, FIELDS = 8, 5
local timeout = tonumber(ARGV[3])
local function refuse(why)
  keep_clock()
  return { why }
end
local lives, ends = is_alive(sid)
if not lives then return refuse('gone') end
if redis.call('HGET', session_key(sid), 'ep') ~= ARGV[2] then return refuse('stale') end

local has_one = #ARGV < FIRST + FIELDS

-- Stores the entry at this place of ARGV with a grant and a number; returns its member, or nil if its ticket is stored.
local function store(at, grant, number)
  local mode, ticket, owner = ARGV[at], ARGV[at + 1], ARGV[at + 3] == 's' and sid or '-'
  local score = whole(grant)
  local member = string.format('%014x.%03x:%s:%s:%s', grant, number, mode, ticket, owner)
  local record = record_text(owner, part, name, member, '', ARGV[at + 4])
  if not redis.call('SET', contender_key(ticket), record, 'NX') then return nil end
  if has_one and queues_in_use(name) == 0 then alone = member end
  redis.call('ZADD', queue_key(part, name, mode), score, member)
  if owner == sid then redis.call('ZADD', entries_key(sid), score, entry_text(part, name, member)) end
  known[member] = true
  return member
end

local function keep_name() redis.call('ZADD', names, 0, ARGV[6]) end

local function keep_all()
  keep_clock_and_token()
  if ends ~= vt + timeout then renew(sid, timeout) end
end

-- One entry at the tail needs no look at it before it is stored; and if it is the only contender of its lock, that is all.
local only
if has_one and ARGV[FIRST + 2] == '' then
  only = store(FIRST, next_token(), 0)
  if only then
    keep_name()
    keep_all()
    if alone and not takes_plain and not (has_gone_on and has_dead()) then
      return 'ok ' .. alone .. ' ' .. whole(guard)
    end
  end
end
-- The rest.
known[sid] = true
local members = { only }
local was_taken = false
for at = FIRST, only and 0 or #ARGV, FIELDS do
  if redis.call('EXISTS', contender_key(ARGV[at + 1])) == 1 then was_taken = true end
end

-- Where those that stand beside another one come: the highest number in use with a grant.
local numbers = {}
local function number_beside(grant)
  if numbers[grant] == nil then
    local greatest, score = 0, whole(grant)
    for _, mode in ipairs(MODES[part]) do
      for _, member in ipairs(redis.call('ZRANGEBYSCORE', queue_key(part, name, mode), score, score)) do
        greatest = math.max(greatest, number_of(member))
      end
    end
    numbers[grant] = greatest
  end
  numbers[grant] = numbers[grant] + 1
  return numbers[grant]
end

local function take_places()
  local ranks = {}
  for at = FIRST, #ARGV, FIELDS do
    local anchor = ARGV[at + 2]
    if anchor ~= '' then
      local found = read_record(redis.call('GET', contender_key(ticket_of(anchor))))
      local is_there = found and found.member == anchor and found.sid == sid
        and redis.call('ZSCORE', queue_key(part, name, mode_of(anchor)), anchor)
      if not is_there then return 'anchor' end
      local grant = grant_of(anchor)
      local number = number_beside(grant)
      if number > BESIDE_MAX then return 'full' end
      ranks[at] = { grant, number }
    end
  end
  for at = FIRST, #ARGV, FIELDS do
    local rank = ranks[at] or { next_token(), 0 }
    members[#members + 1] = store(at, rank[1], rank[2])
  end
  keep_name()
end

if was_taken then
  for at = FIRST, #ARGV, FIELDS do
    local found = read_record(redis.call('GET', contender_key(ARGV[at + 1])))
    members[#members + 1] = found and found.member or ''
  end
elseif not only then
  local refusal = take_places()
  if refusal then return refuse(refusal) end
end
if not only then keep_all() end
if has_gone_on then remove_the_dead() end
local shown = view(part, name, members[1], ARGV[7] == 'whole')
-- A list takes the server as long as three more commands.
if alone and #shown == 3 then return 'ok ' .. alone .. ' ' .. whole(guard) end
return { 'ok', members, shown, guard }
