-- quarantine: park an account that was just requeued, if nothing has changed it since.
--
-- KEYS[1]  tickets       HASH  id -> current ticket and what follows it
-- KEYS[2]  ticket_seq    STRING
-- KEYS[3]  parked        ZSET  id -> parked at
-- KEYS[4]  park_reasons  HASH  id -> reason
-- KEYS[5]  strikes       HASH  id -> requeues since the last return
-- KEYS[6]  ticket_mark   STRING
-- KEYS[7], KEYS[8]  timeline  STREAMs
-- ARGV[1]  the entry that was requeued
-- ARGV[2]  how many strikes are needed
-- ARGV[3]  the reason
-- ARGV[4]  how many lines timelines keep, as tell takes it
--
-- Returns 1 if it is parked now. Returns 0 if it was not changed, because it was
-- claimed, changed, parked or deregistered since, or has fewer strikes.

local tickets, sequence, parked, reasons, strikes = KEYS[1], {KEYS[2], KEYS[6]}, KEYS[3], KEYS[4], KEYS[5]
local entry, enough, reason = ARGV[1], tonumber(ARGV[2]), ARGV[3]

local wrong = mistyped(tickets, 'hash', KEYS[2], 'string', parked, 'zset', reasons, 'hash', strikes, 'hash')
if wrong then return wrong end

local id = sub(entry, ID)
local current = redis.call('HGET', tickets, id)
if not current or ticket_of(current) ~= ticket_of(entry) then return 0 end
if (tonumber(redis.call('HGET', strikes, id) or '0') or 0) < enough then return 0 end

even_when_full(tickets)
local now = clock()
redis.call('ZADD', parked, 'NX', now, id)
redis.call('HSET', reasons, id, reason)
renew(tickets, sequence, id, current, now)
tell({KEYS[7], KEYS[8]}, ARGV[4], id, 'parked', 0, reason)
return 1
