-- recall session: return the value of a name, and end the session if ARGV[2] is 1.
--
-- KEYS[1]  ends    ZSET  as in store session
-- KEYS[2]  values  HASH  as in store session
-- ARGV[1]  the name
-- ARGV[2]  1: end it, 0: leave it
--
-- Returns the value and for how many ms it is still valid, or nothing if it has ended.

local wrong = mistyped(KEYS[1], 'zset', KEYS[2], 'hash')
if wrong then return wrong end

local kept = redis.call('HGET', KEYS[2], ARGV[1])
local ends = tonumber(redis.call('ZSCORE', KEYS[1], ARGV[1]) or '')
if not kept or not ends then return {} end
local life, value = string.match(kept, '^(%d+)|(.*)$')
local left = ends - clock()
-- If Redis' clock went back, the session would live too long.
local over = not life or left <= 0 or left > tonumber(life) + 1000
if over or ARGV[2] == '1' then
  redis.call('ZREM', KEYS[1], ARGV[1])
  redis.call('HDEL', KEYS[2], ARGV[1])
end
if over then return {} end
return {value, left}
