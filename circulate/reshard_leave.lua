-- leave: let a shard's accounts go to other shards, for good. For a while nothing
-- is claimed, so that returned accounts can be moved too.
--
-- KEYS[1]  leaving  STRING  until when nothing is claimed, unix ms
-- KEYS[2]  tickets  HASH
-- KEYS[3]  stays    STRING  the last generation that accounts do not leave for
-- ARGV[1]  for how long nothing is claimed, ms
-- ARGV[2]  the generation of the others
--
-- Returns how many accounts the shard has, or -1 if they stay.

local wrong = mistyped(KEYS[1], 'string', KEYS[2], 'hash', KEYS[3], 'string')
if wrong then return wrong end
if (tonumber(redis.call('GET', KEYS[3])) or 0) >= tonumber(ARGV[2]) then return -1 end

even_when_full(KEYS[2])
redis.call('SET', KEYS[1], stamp(clock() + tonumber(ARGV[1])))
return redis.call('HLEN', KEYS[2])
