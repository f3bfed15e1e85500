-- Names locks that have contenders. ARGV: the name behind which they come, or an empty text, and how many are read.
-- Answers: the last name that was read, or an empty text if there are no more; then those that have contenders.
local from = ARGV[1] == '' and '-' or '(' .. ARGV[1]
local read = redis.call('ZRANGEBYLEX', names, from, '+', 'LIMIT', 0, ARGV[2])
local answer = { #read == tonumber(ARGV[2]) and read[#read] or '' }
local function has_contenders(name)
  for part, modes in pairs(MODES) do
    for _, mode in ipairs(modes) do
      if #some_from(queue_key(part, name, mode), 0, 1, 1) > 0 then return true end
    end
  end
  return false
end
for _, listed in ipairs(read) do
  if has_contenders(string.match(listed, '^%S+')) then answer[#answer + 1] = listed end
end
return answer
