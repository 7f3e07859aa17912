-- members: which processes of the service run, or ran until lately, at one moment.
--
-- KEYS[1]  processes  ZSET  process -> when it reported last, unix ms
-- KEYS[2]  seen       ZSET  the same, including those that monitors found silent
-- KEYS[3]  about      HASH  process -> its report
-- ARGV[1]  the most to return, the latest
-- ARGV[2]  for how many ms a silent process is seen
--
-- Returns {now, then for each process: the process, when it reported last, its report or
-- ''}. A process of an earlier version is only in processes.

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
