-- deregister: an account leaves. What still travels of it has lost its ticket
-- and is dropped where it turns up.
--
-- KEYS[1]  changes  ZSET  id -> when its record changed, unix µs
-- KEYS[2]  tickets  HASH
-- KEYS[3]  schedule  ZSET
-- KEYS[4]  parked  ZSET
-- KEYS[5…] every other HASH that has a field for each account
-- ARGV     ids
--
-- Returns how many were registered.

local wrong = mistyped(KEYS[1], 'zset', KEYS[2], 'hash', KEYS[3], 'zset', KEYS[4], 'zset')
for k = 5, #KEYS do wrong = wrong or mistyped(KEYS[k], 'hash') end
if wrong then return wrong end

even_when_full(KEYS[2])
-- The change goes first: what a script adds may be left over, what it removes
-- may not.
for _, id in ipairs(ARGV) do redis.call('ZADD', KEYS[1], change_stamp(KEYS[1]), id) end
redis.call('ZREMRANGEBYRANK', KEYS[1], 0, -1025)
local gone = redis.call('HDEL', KEYS[2], unpack(ARGV))
redis.call('ZREM', KEYS[3], unpack(ARGV))
redis.call('ZREM', KEYS[4], unpack(ARGV))
for k = 5, #KEYS do redis.call('HDEL', KEYS[k], unpack(ARGV)) end
return gone
