-- drop credential: the third party refuses exactly this one.
--
-- KEYS[1]  credential  HASH  see take credential
-- KEYS[2]  pause       HASH
-- ARGV[1]  its version
-- ARGV[2]  for how many ms after a drop the next value stays
--
-- Returns 1 if it is gone, 0 if it stays.

local wrong = mistyped(KEYS[1], 'hash')
if wrong then return wrong end

local guard, now = tonumber(ARGV[2]), clock()
rewind(KEYS[1], TIMES, now)
local c = redis.call('HMGET', KEYS[1], 'version', 'dropped')
if c[1] ~= ARGV[1] then return 1 end
local since = now - (tonumber(c[2]) or 0)
if since >= 0 and since < guard then return 0 end
redis.call('HSET', KEYS[1], 'dropped', format('%.0f', now), 'seen', format('%.0f', now))
redis.call('HDEL', KEYS[1], 'value', 'version', 'expires', 'refresh')
return 1
