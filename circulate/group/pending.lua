-- pending: the messages that a shard's group has read and not acknowledged.
--
-- KEYS[1]  leases    HASH    group -> token|expiry|consumer
-- KEYS[2]  messages  STREAM
-- ARGV[1]  the group
-- ARGV[2]  the consumer
-- ARGV[3]  its token
-- ARGV[4]  for how many ms a lease lives
-- ARGV[5]  the first position
-- ARGV[6]  how many at most
--
-- Returns now (unix ms), whether the lease is valid, and position and deliveries of each.

local now = clock()
if not holds(KEYS[1], ARGV[1], ARGV[3], ARGV[2], tonumber(ARGV[4]), now) then return { now, 0 } end
local out = { now, 1 }
for i, p in ipairs(redis.call('XPENDING', KEYS[2], ARGV[1], ARGV[5], '+', ARGV[6])) do
  out[2 * i + 1], out[2 * i + 2] = p[1], p[4]
end
return out
