-- receive: have a shard take accounts from other shards from now on. A shard that
-- has taken all there were never does again.
--
-- KEYS[1]  arrivals    SET
-- KEYS[2]  ticket_seq  STRING
-- KEYS[3]  ticket_mark STRING
--
-- Returns 1 where it does, 0 where it did so before.

local wrong = mistyped(KEYS[1], 'set', KEYS[2], 'string')
if wrong then return wrong end

if redis.call('EXISTS', KEYS[1]) == 1 then return 1 end
if redis.call('EXISTS', KEYS[2]) == 1 then return 0 end
redis.call('SADD', KEYS[1], '')
take_ticket({KEYS[2], KEYS[3]}, clock())
return 1
