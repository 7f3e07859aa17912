-- park: take accounts out of circulation, with a reason. A check under way is
-- void.
--
-- KEYS[1]  tickets       HASH  id -> current ticket, short cursor
-- KEYS[2]  ticket_seq    STRING
-- KEYS[3]  schedule      ZSET  id -> due
-- KEYS[4]  parked        ZSET  id -> parked at
-- KEYS[5]  park_reasons  HASH  id -> reason
-- KEYS[6]  ticket_mark   STRING
-- KEYS[7], KEYS[8]  timeline  STREAMs
-- ARGV[1]  the reason
-- ARGV[2]  how many lines timelines keep, as tell takes it
-- ARGV[3]  1 or 2: how many arguments each account has
-- then of each its id, and the reason for which it must be parked now, '' = none;
-- without the second, any reason will do
--
-- Returns how many were registered and had that reason.
--
-- The ticket is taken first, because that can fail; an unused ticket does no harm. It
-- takes effect between what is added and what is removed: a travelling entry becomes
-- void only after the account is parked, and a scheduled account stays scheduled until
-- then.

local tickets, sequence, schedule, parked, reasons = KEYS[1], {KEYS[2], KEYS[6]}, KEYS[3], KEYS[4], KEYS[5]

local wrong = mistyped(tickets, 'hash', KEYS[2], 'string', schedule, 'zset', parked, 'zset', reasons, 'hash')
if wrong then return wrong end

even_when_full(tickets)
local now, known = clock(), 0
local each = tonumber(ARGV[3])
for a = 4, #ARGV, each do
  local id, must = ARGV[a], each == 2 and ARGV[a + 1]
  local current = redis.call('HGET', tickets, id)
  if current and (not must or (redis.call('HGET', reasons, id) or '') == must) then
    known = known + 1
    local fresh = take_ticket(sequence, now)
    redis.call('ZADD', parked, 'NX', now, id)
    redis.call('HSET', reasons, id, ARGV[1])
    redis.call('HSET', tickets, id, fresh .. lane_behind(current) .. rule_behind(current) .. sub(current, 17))
    redis.call('ZREM', schedule, id)
    tell({KEYS[7], KEYS[8]}, ARGV[2], id, 'parked', 0, ARGV[1])
  end
end
return known
