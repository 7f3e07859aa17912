-- note key: note that a key was used.
--
-- KEYS[1]  records  HASH  as in add key
-- KEYS[2]  names    HASH  as in add key
-- KEYS[3]  used     HASH  as in add key
-- ARGV[1]  digest
--
-- Returns 1, or 0 if there is no such key.

local wrong = mistyped(KEYS[1], 'hash', KEYS[2], 'hash', KEYS[3], 'hash')
if wrong then return wrong end

if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
redis.call('HSET', KEYS[3], ARGV[1], format('%.0f', clock()))
return 1
