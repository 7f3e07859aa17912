-- confirmed: drop copies of accounts that have arrived, and of what they remember.
--
-- KEYS[1]  departed    HASH  generation.target:number -> when|accounts
-- KEYS[2]  known_away  HASH  generation.target:number -> what these accounts remember
-- ARGV     fields
--
-- Returns how many copies there were.

redis.call('HDEL', KEYS[2], unpack(ARGV))
return redis.call('HDEL', KEYS[1], unpack(ARGV))
