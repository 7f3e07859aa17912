-- heartbeat: a replica is alive.
--
-- KEYS[1]  replicas  ZSET  replica -> last heartbeat, unix ms
-- KEYS[2]  reports   HASH  replica -> its report
-- ARGV[1]  the replica
-- ARGV[2]  its report
-- ARGV[3]  for how many ms a silent replica is remembered
-- ARGV[4]  for how many ms it counts as alive
--
-- Returns the replicas that are alive.

-- A full Redis must not make a replica look dead.
even_when_full(KEYS[2])
local now = clock()
redis.call('ZADD', KEYS[1], now, ARGV[1])
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
-- It forgets some at a time, because another heartbeat follows soon.
local silent = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now - tonumber(ARGV[3]), 'LIMIT', 0, 1000)
if #silent > 0 then
  redis.call('ZREM', KEYS[1], unpack(silent))
  redis.call('HDEL', KEYS[2], unpack(silent))
end
-- A beat from the future was written before the clock went back. It counts as a current
-- one. A live replica beats again, and a dead one is silent from now on.
local names = {}
local beats = redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. format('%.0f', now - tonumber(ARGV[4])), '+inf', 'WITHSCORES')
for i = 1, #beats, 2 do
  names[#names + 1] = beats[i]
  if tonumber(beats[i + 1]) > now then redis.call('ZADD', KEYS[1], now, beats[i]) end
end
return names
