-- nudge: have an account checked earlier than it is due.
--
-- KEYS[1]  tickets   HASH  id -> current ticket and what follows it
-- KEYS[2]  schedule  ZSET  id -> due
-- KEYS[3]  parked    ZSET  id -> parked at
-- KEYS[4]  nudges    HASH  id -> due|expiry|hint
-- KEYS[5], KEYS[6]  timeline  STREAMs
-- KEYS[7]  message_queue:urgent  LIST
-- ARGV[1]  id
-- ARGV[2]  within how many ms
-- ARGV[3]  the hint; empty = none
-- ARGV[4]  how many ms the hint lives
-- ARGV[5], ARGV[6]  the channel to wake replicas on, and the shard
-- ARGV[7]  how many lines timelines keep, as tell takes it
--
-- A nudge to now wakes replicas in any case: a busy replica lets due accounts of a shard
-- gather, and a nudge must not wait for that.
--
-- An account that was due before now goes to the urgent lane: in the schedule it would wait
-- for its turn among all that are due.
--
-- Returns scheduled, circulating, parked or unknown. A circulating account is waiting or
-- claimed; the script does not know which. The nudge is stored, and the next claim or
-- return obeys it.

local tickets, schedule, parked, nudges, urgent = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[7]
local id, within, hint, lives = ARGV[1], tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4])

local wrong = mistyped(tickets, 'hash', schedule, 'zset', parked, 'zset', nudges, 'hash', urgent, 'list')
if wrong then return wrong end

local current = redis.call('HGET', tickets, id)
if not current then return 'unknown' end
if redis.call('ZSCORE', parked, id) then return 'parked' end

local now = clock()
local due, expiry = now + within, now + lives
local kept = redis.call('HGET', nudges, id)
local scheduled = redis.call('ZSCORE', schedule, id)
if kept then
  -- The earliest of several nudges decides when; the last hint is used.
  local asked = tonumber(sub(kept, 1, 13))
  if asked > 0 and asked < due then due = asked end
  if hint == '' and tonumber(sub(kept, 15, 27)) > now then
    hint, expiry = sub(kept, 29), tonumber(sub(kept, 15, 27))
  end
end
if hint ~= '' or not scheduled then
  redis.call('HSET', nudges, id, stamp(due) .. '|' .. stamp(expiry) .. '|' .. hint)
end
if scheduled then
  if due <= now or due < first_due(schedule) then wake(ARGV[5], ARGV[6], due) end
  if due <= now and tonumber(scheduled) < now then
    move_to_front(schedule, urgent, tickets, id, current, tonumber(scheduled))
    tell({KEYS[5], KEYS[6]}, ARGV[7], id, 'nudged', within, '')
    return 'circulating'
  end
  -- An account that waits for its turn in a limit's line stays there: an earlier check
  -- would be denied, and would get a new place at the line's end.
  if due < tonumber(scheduled) and rule_behind(current) ~= TURN then
    redis.call('ZADD', schedule, due, id)
    redis.call('HSET', tickets, id, sub(current, 1, 15) .. NUDGED .. sub(current, 17))
    tell({KEYS[5], KEYS[6]}, ARGV[7], id, 'nudged', within, '')
  end
  return 'scheduled'
end
if not kept then tell({KEYS[5], KEYS[6]}, ARGV[7], id, 'nudged', within, '') end
return 'circulating'
