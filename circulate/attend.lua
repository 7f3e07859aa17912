-- attend: a process of the service reports, or leaves.
--
-- KEYS[1]  processes  ZSET  process -> when it reported last, unix ms
-- KEYS[2]  left       LIST  processes that have left since the last look; the latest only
-- KEYS[3]  seen       ZSET  the same, including those that monitors found silent
-- KEYS[4]  about      HASH  process -> its report
-- ARGV[1]  the process
-- ARGV[2]  1 if it leaves, otherwise 0
-- ARGV[3]  for how many ms a silent process is remembered
-- ARGV[4]  how many of left stay
-- ARGV[5]  for how many ms a silent process is seen
-- ARGV[6]  its report, or '' if it has not changed
--
-- Returns 1 if its report is known, otherwise 0.

local processes, left, seen, about = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local process, leaves, says = ARGV[1], ARGV[2] == '1', ARGV[6]
local now, memory, kept, ghosts = clock(), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])

local wrong = mistyped(processes, 'zset', left, 'list', seen, 'zset', about, 'hash')
if wrong then return wrong end
if leaves then
  if redis.call('ZSCORE', processes, process) then
    redis.call('LPUSH', left, process)
    redis.call('LTRIM', left, 0, kept - 1)
    redis.call('ZREM', processes, process)
  end
  redis.call('HDEL', about, process)
  redis.call('ZREM', seen, process)
  return 0
end
redis.call('ZADD', processes, now, process)
redis.call('ZADD', seen, now, process)
-- This bounds the processes that no monitor looks at, a hundred at a time.
local silent = redis.call('ZRANGEBYSCORE', processes, '-inf', now - memory, 'LIMIT', 0, 100)
if #silent > 0 then redis.call('ZREM', processes, unpack(silent)) end
silent = redis.call('ZRANGEBYSCORE', seen, '-inf', now - ghosts, 'LIMIT', 0, 100)
if #silent > 0 then
  redis.call('ZREM', seen, unpack(silent))
  redis.call('HDEL', about, unpack(silent))
end
if says == '' then return redis.call('HEXISTS', about, process) end
redis.call('HSET', about, process, says)
return 1
