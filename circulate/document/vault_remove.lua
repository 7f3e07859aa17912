-- remove value: remove a name and its value.
--
-- KEYS[1]  values  HASH  as in put value
-- KEYS[2]  names   ZSET  as in put value
-- KEYS[3]  state   HASH  as in put value
-- ARGV[1]  name
--
-- Returns 1, or 0 if there is no such value.

local wrong = mistyped(KEYS[1], 'hash', KEYS[2], 'zset', KEYS[3], 'hash')
if wrong then return wrong end

local old = redis.call('HGET', KEYS[1], ARGV[1])
redis.call('HDEL', KEYS[1], ARGV[1])
redis.call('ZREM', KEYS[2], ARGV[1])
if not old then return 0 end
local state = redis.call('HMGET', KEYS[3], 'revision', 'bytes')
redis.call('HSET', KEYS[3], 'revision', format('%.0f', (tonumber(state[1]) or 0) + 1),
  'bytes', format('%.0f', math.max(0, (tonumber(state[2]) or 0) - #old)))
return 1
