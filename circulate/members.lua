-- members: which processes of the service there are and were until lately, at one moment.
--
-- KEYS[1]  processes  ZSET  process -> when it said last that it is there, unix ms
-- KEYS[2]  seen       ZSET  likewise, those among them that monitors found silent
-- KEYS[3]  about      HASH  process -> what it says of itself
-- ARGV[1]  how many to tell of at most, the latest
-- ARGV[2]  for how many ms a silent process is seen
--
-- Returns {now, then for each process: the process, when it said so last, what it says
-- of itself or ''}. One of an earlier version is only in processes.

local processes, seen, about, most = KEYS[1], KEYS[2], KEYS[3], tonumber(ARGV[1])

local wrong = mistyped(processes, 'zset', seen, 'zset', about, 'hash')
if wrong then return wrong end
local now = clock()
local answer, told, n = {now}, {}, 0
for _, key in ipairs({seen, processes}) do
  local from = '(' .. format('%.0f', now - tonumber(ARGV[2]))
  local found = redis.call('ZREVRANGEBYSCORE', key, '+inf', from, 'WITHSCORES', 'LIMIT', 0, most)
  for i = 1, #found, 2 do
    if n < most and not told[found[i]] then
      n = n + 1
      told[found[i]] = true
      for _, value in ipairs({found[i], found[i + 1], redis.call('HGET', about, found[i]) or ''}) do answer[#answer + 1] = value end
    end
  end
end
return answer
