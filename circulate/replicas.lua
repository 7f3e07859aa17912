-- replicas: the replicas that are remembered, at one moment.
--
-- KEYS[1]  replicas  ZSET  replica -> last heartbeat, unix ms
-- KEYS[2]  reports   HASH  replica -> its report
--
-- Returns {now, replicas with their heartbeats, replicas with their reports}.

return {clock(), redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES'), redis.call('HGETALL', KEYS[2])}
