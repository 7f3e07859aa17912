-- stay: make a shard's accounts stay, for good, if none has begun to leave for the shards
-- of a generation.
--
-- KEYS[1]  stays    STRING  the last generation that accounts do not leave for
-- KEYS[2]  leaving  STRING
-- KEYS[3]  tickets  HASH
-- ARGV[1]  the generation
--
-- Returns 1 if they stay, 0 if they may have begun to leave.

local wrong = mistyped(KEYS[1], 'string', KEYS[2], 'string', KEYS[3], 'hash')
if wrong then return wrong end

if redis.call('EXISTS', KEYS[2]) == 1 then return 0 end
if (tonumber(redis.call('GET', KEYS[1])) or 0) < tonumber(ARGV[1]) then
  even_when_full(KEYS[3])
  redis.call('SET', KEYS[1], ARGV[1])
end
return 1
