-- retire: remove a replica or consumer that is going.
--
-- KEYS[1]  members  ZSET  name -> last heartbeat, unix ms
-- KEYS[2]  reports       HASH  name -> its report
-- ARGV[1]  its name
--
-- Returns 1 if it was there, otherwise 0.

redis.call('HDEL', KEYS[2], ARGV[1])
return redis.call('ZREM', KEYS[1], ARGV[1])
