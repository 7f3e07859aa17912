-- replicas: who is remembered, at one moment.
--
-- KEYS[1]  replicas  ZSET  replica -> last heartbeat, unix ms
-- KEYS[2]  reports   HASH  replica -> what it says of itself
--
-- Returns {now, replicas with their heartbeats, replicas with their reports}.

return {clock(), redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES'), redis.call('HGETALL', KEYS[2])}
