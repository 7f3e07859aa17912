-- clock: keep the newest time seen in a shard, and notice when Redis' clock went back
-- behind it.
--
-- KEYS[1]  clock  HASH  newest: unix ms
-- ARGV[1]  by how many ms it may go back unnoticed
-- ARGV[2]  the newest time that is to be forgotten, as all that was due by it has
--          been put right; '' = none
--
-- Returns {now, the newest time seen if the clock went back behind it, otherwise 0}. The
-- time is kept until it is forgotten, so that every caller is told.

local kept = redis.call('HGET', KEYS[1], 'newest')
local now = clock()
local newest = tonumber(kept or '') or 0
if newest > now + tonumber(ARGV[1]) and kept ~= ARGV[2] then return {now, newest} end
if newest < now or kept == ARGV[2] then
  even_when_full(KEYS[1])
  redis.call('HSET', KEYS[1], 'newest', format('%.0f', now))
end
return {now, 0}
