-- note: remember something for operators, in a bounded index.
--
-- KEYS[1]  the index  ZSET  member -> until or since when, unix ms
-- ARGV[1]  the member
-- ARGV[2]  how many ms from now its time is
-- ARGV[3]  for how many ms members stay after their time
-- ARGV[4]  how many members stay, those with the latest times
--
-- Returns how many there are.

local wrong = mistyped(KEYS[1], 'zset')
if wrong then return wrong end

local now, keep = clock(), tonumber(ARGV[3])
local at = now + tonumber(ARGV[2])
redis.call('ZADD', KEYS[1], format('%.0f', at), ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', format('%.0f', now - keep))
redis.call('ZREMRANGEBYRANK', KEYS[1], 0, -1 - tonumber(ARGV[4]))
local last = redis.call('ZREVRANGE', KEYS[1], 0, 0, 'WITHSCORES')
redis.call('PEXPIREAT', KEYS[1], format('%.0f', tonumber(last[2]) + keep + 1))
return redis.call('ZCARD', KEYS[1])
