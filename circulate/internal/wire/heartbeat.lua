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
-- A heartbeat from the future was written before the clock went back. It counts as a
-- current one. A live replica sends another, and a dead one is silent from now on.
local names, silent = {}, {}
local beats = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
for i = 1, #beats, 2 do
  local name, beat = beats[i], tonumber(beats[i + 1])
  if beat > now - tonumber(ARGV[4]) then
    names[#names + 1] = name
    if beat > now then redis.call('ZADD', KEYS[1], now, name) end
  elseif beat <= now - tonumber(ARGV[3]) and #silent < 1000 then
    silent[#silent + 1] = name
  end
end
-- Only some at a time, because another heartbeat follows soon.
if #silent > 0 then
  redis.call('ZREM', KEYS[1], unpack(silent))
  redis.call('HDEL', KEYS[2], unpack(silent))
end
return names
