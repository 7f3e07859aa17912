-- settle credential: store the result of fetching it.
--
-- KEYS[1]  credential  HASH  see take credential
-- KEYS[2]  pause       HASH
-- ARGV[1]  the fence
-- ARGV[2]  value, refused or failed
-- ARGV[3]  the value, or the reason
-- ARGV[4]  for how many ms it is valid
-- ARGV[5]  of a value: after how many ms to fetch the next
--
-- Returns 1, or 0 if the fence is not the last one or was used.

local wrong = mistyped(KEYS[1], 'hash')
if wrong then return wrong end

local LINGER = 3600000
local as, payload, ms, refresh, now = ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), clock()
rewind(KEYS[1], TIMES, now)
local c = redis.call('HMGET', KEYS[1], 'fence', 'lease', 'expires')
if c[1] ~= ARGV[1] or not c[2] then return 0 end

local till = format('%.0f', now + ms)
if as == 'value' then
  redis.call('HSET', KEYS[1], 'value', payload, 'version', ARGV[1], 'expires', till, 'refresh', format('%.0f', now + refresh))
  redis.call('HDEL', KEYS[1], 'lease', 'refused', 'failed', 'reason')
else
  redis.call('HSET', KEYS[1], as, till, 'reason', payload)
  redis.call('HDEL', KEYS[1], 'lease')
end
redis.call('HSET', KEYS[1], 'seen', format('%.0f', now))
redis.call('PEXPIRE', KEYS[1], math.max(ms, (tonumber(c[3]) or 0) - now) + LINGER)
return 1
