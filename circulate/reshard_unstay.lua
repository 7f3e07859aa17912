-- unstay: let a shard's accounts leave after all, because other shards' accounts have
-- begun to leave.
--
-- KEYS[1]  stays  STRING  the last generation that accounts do not leave for
-- ARGV[1]  the generation
--
-- Returns 1 if it was taken back.

local wrong = mistyped(KEYS[1], 'string')
if wrong then return wrong end

-- For an earlier generation the accounts stay, because none leaves for it any more.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
