-- replace session: put a value in the place of another, unless that has changed or ended meanwhile.
--
-- KEYS[1]  ends    ZSET  as in store session
-- KEYS[2]  values  HASH  as in store session
-- ARGV[1]  the name
-- ARGV[2]  the value that is there
-- ARGV[3]  the value to put there; it ends when the other would have
--
-- Returns 1, or 0 if another value is there, or -1 if there is none.

local wrong = mistyped(KEYS[1], 'zset', KEYS[2], 'hash')
if wrong then return wrong end

local kept = redis.call('HGET', KEYS[2], ARGV[1])
local ends = tonumber(redis.call('ZSCORE', KEYS[1], ARGV[1]) or '')
local life, value = string.match(kept or '', '^(%d+)|(.*)$')
if not life or not ends or ends <= clock() then return -1 end
if value ~= ARGV[2] then return value == ARGV[3] and 1 or 0 end
redis.call('HSET', KEYS[2], ARGV[1], life .. '|' .. ARGV[3])
return 1
