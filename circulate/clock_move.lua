-- move: have scheduled accounts due at another time, unless they have moved since.
--
-- KEYS[1]  schedule  ZSET  id -> due
-- KEYS[2]  tickets   HASH
-- ARGV[1], ARGV[2]  the channel to wake replicas on, and the shard
-- then three for each account: id, the due time that was seen, the new due time
--
-- Returns how many were moved.

local schedule = KEYS[1]

local wrong = mistyped(schedule, 'zset', KEYS[2], 'hash')
if wrong then return wrong end

local was_first, first, moved = first_due(schedule), math.huge, 0
even_when_full(KEYS[2])
for a = 3, #ARGV, 3 do
  local score = redis.call('ZSCORE', schedule, ARGV[a])
  if score and tonumber(score) == tonumber(ARGV[a + 1]) then
    redis.call('ZADD', schedule, ARGV[a + 2], ARGV[a])
    first = math.min(first, tonumber(ARGV[a + 2]))
    moved = moved + 1
  end
end
if first < was_first then wake(ARGV[1], ARGV[2], first) end
return moved
