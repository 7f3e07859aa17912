-- release: give up a lease, and remove the consumer's name from the group if nothing is
-- pending under it.
--
-- KEYS[1]  leases    HASH    group -> token|expiry|consumer
-- KEYS[2]  messages  STREAM
-- ARGV[1]  the group
-- ARGV[2]  the consumer
-- ARGV[3]  its token
--
-- Returns 1 if the lease was still valid, otherwise 0.

local lease = redis.call('HGET', KEYS[1], ARGV[1])
if not lease or sub(lease, 1, 14) ~= ARGV[3] or sub(lease, 30) ~= ARGV[2] then return 0 end
pcall(forget, KEYS[2], ARGV[1], ARGV[2]) -- the group may be gone
redis.call('HDEL', KEYS[1], ARGV[1])
return 1
