-- Writes or removes the value of a queue if it is as expected. ARGV: session, epoch, part, name, what is expected (`any`,
-- `absent` or a version), `set` and the bytes, or `remove`. Answers: `ok` and the new version; or `no`, `gone`, `stale`.
local sid, key = ARGV[1], value_key(ARGV[3], ARGV[4])
if not is_alive(sid) then return { 'gone' } end
if redis.call('HGET', session_key(sid), 'ep') ~= ARGV[2] then return { 'stale' } end
local found = redis.call('HGET', key, 'version') or 'absent'
if ARGV[5] ~= 'any' and ARGV[5] ~= found then return { 'no' } end
local version = whole(next_token())
if ARGV[6] == 'set' then
  redis.call('HSET', key, 'version', version, 'bytes', ARGV[7])
else
  redis.call('DEL', key)
end
keep_token()
return { 'ok', version }
