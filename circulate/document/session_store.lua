-- store session: store a value under a name until it ends.
--
-- KEYS[1]  ends    ZSET  name -> when it ends, unix ms
-- KEYS[2]  values  HASH  name -> life in ms|value
-- KEYS[3]  owned   ZSET  the owner's: name -> when it ends, unix ms
-- ARGV[1]  the name
-- ARGV[2]  the value
-- ARGV[3]  for how many ms it lives
-- ARGV[4]  the most that an owner may have: the oldest are removed
-- ARGV[5]  the most that there may be: the oldest are removed
--
-- Returns how many were removed that had not ended.

local wrong = mistyped(KEYS[1], 'zset', KEYS[2], 'hash', KEYS[3], 'zset')
if wrong then return wrong end

local EACH = 128
local name, life, now = ARGV[1], tonumber(ARGV[3]), clock()
local function forget(names)
  if #names == 0 then return end
  redis.call('ZREM', KEYS[1], unpack(names))
  redis.call('HDEL', KEYS[2], unpack(names))
  redis.call('ZREM', KEYS[3], unpack(names))
end
forget(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', format('%.0f', now), 'LIMIT', 0, EACH))

local ends = format('%.0f', now + life)
redis.call('HSET', KEYS[2], name, ARGV[3] .. '|' .. ARGV[2])
redis.call('ZADD', KEYS[1], ends, name)
redis.call('ZADD', KEYS[3], ends, name)
for _, key in ipairs(KEYS) do
  redis.call('PEXPIRE', key, math.max(life, redis.call('PTTL', key)))
end

redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', format('%.0f', now))
local gone = 0
for _, bound in ipairs({{KEYS[3], ARGV[4]}, {KEYS[1], ARGV[5]}}) do
  local over = math.min(EACH, redis.call('ZCARD', bound[1]) - tonumber(bound[2]))
  if over > 0 then
    forget(redis.call('ZRANGE', bound[1], 0, over - 1))
    gone = gone + over
  end
end
return gone
