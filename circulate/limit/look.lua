-- look at a limit: what is known about it now. It changes nothing.
--
-- KEYS[1]  the limit's state   HASH
-- KEYS[2]  the limit's leases  ZSET  check id -> expiry, unix ms
--
-- Returns the time now, unix µs, how many leases there are, and tat, line, front, hold
-- and pace as acquire stores them, '' for unknown ones.

local wrong = mistyped(KEYS[1], 'hash', KEYS[2], 'zset')
if wrong then return wrong end

local t = redis.call('TIME')
local now = tonumber(t[1]) * 1000000 + tonumber(t[2])
local known = redis.call('HMGET', KEYS[1], 'tat', 'line', 'front', 'hold', 'pace')
local held = redis.call('ZCOUNT', KEYS[2], '(' .. format('%.0f', math.floor(now / 1000)), '+inf')
local answer = { format('%.0f', now), tostring(held) }
for i = 1, 5 do answer[2 + i] = known[i] or '' end
return answer
