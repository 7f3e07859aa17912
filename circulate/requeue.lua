-- requeue: take a stale entry from its holder on a full Redis, which refuses Requeue's
-- usual transaction.
--
-- KEYS[1]  processing_list  LIST
-- KEYS[2]  message_queue    LIST
-- KEYS[3]  strikes          HASH  id -> requeues since the last return
-- KEYS[4], KEYS[5]  timeline  STREAMs
-- ARGV[1]  the entry
-- ARGV[2]  how many lines timelines keep, as tell takes it
--
-- Returns how many strikes the account has now, or 0 if it was returned.

local processing, queue, strikes, entry = KEYS[1], KEYS[2], KEYS[3], ARGV[1]

local wrong = mistyped(processing, 'list', queue, 'list', strikes, 'hash')
if wrong then return wrong end

if redis.call('LREM', processing, -1, entry) == 0 then return 0 end
redis.call('LPUSH', queue, entry)
local struck = redis.call('HINCRBY', strikes, sub(entry, ID), 1)
tell({KEYS[4], KEYS[5]}, ARGV[2], sub(entry, ID), 'requeued', 0, sub(entry, 30, 39))
return struck
