-- attend: a process of the service is there, or leaves.
--
-- KEYS[1]  processes  ZSET  process -> when it said so last, unix ms
-- KEYS[2]  left       LIST  processes that have left, until somebody looks; the latest only
-- ARGV[1]  the process
-- ARGV[2]  1 where it leaves, otherwise 0
-- ARGV[3]  for how many ms a silent process is remembered
-- ARGV[4]  how many of left are kept
--
-- Returns 1 where it was known before, otherwise 0.

local processes, left, process, leaves = KEYS[1], KEYS[2], ARGV[1], ARGV[2] == '1'
local now, memory, kept = clock(), tonumber(ARGV[3]), tonumber(ARGV[4])

local wrong = mistyped(processes, 'zset', left, 'list')
if wrong then return wrong end
local known = redis.call('ZSCORE', processes, process)
if leaves then
  if known then
    redis.call('LPUSH', left, process)
    redis.call('LTRIM', left, 0, kept - 1)
    redis.call('ZREM', processes, process)
  end
else
  redis.call('ZADD', processes, now, process)
  -- So that what nobody looks at does not grow, a hundred at a time.
  local silent = redis.call('ZRANGEBYSCORE', processes, '-inf', now - memory, 'LIMIT', 0, 100)
  if #silent > 0 then redis.call('ZREM', processes, unpack(silent)) end
end
return known and 1 or 0
