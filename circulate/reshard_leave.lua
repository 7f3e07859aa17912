-- leave: let a shard's accounts go to other shards, for good. For a while nothing
-- is claimed, so that what comes back can be moved too.
--
-- KEYS[1]  leaving  STRING  until when nothing is claimed, unix ms
-- KEYS[2]  tickets  HASH
-- ARGV[1]  for how long nothing is claimed, ms
--
-- Returns how many accounts there are.

local wrong = mistyped(KEYS[1], 'string', KEYS[2], 'hash')
if wrong then return wrong end

even_when_full(KEYS[2])
redis.call('SET', KEYS[1], stamp(clock() + tonumber(ARGV[1])))
return redis.call('HLEN', KEYS[2])
