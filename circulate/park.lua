-- park: take accounts out of circulation, with a reason. A check under way is
-- void.
--
-- KEYS[1]  tickets       HASH  id -> current ticket, short cursor
-- KEYS[2]  ticket_seq    STRING
-- KEYS[3]  schedule      ZSET  id -> due
-- KEYS[4]  parked        ZSET  id -> parked at
-- KEYS[5]  park_reasons  HASH  id -> reason
-- KEYS[6]  ticket_mark   STRING
-- ARGV[1]  the reason
-- then ids
--
-- Returns how many were registered.
--
-- The ticket is taken first, for that can fail: one that is not used harms
-- nobody. It takes effect between what is added and what is removed: an account
-- that travels is void only once it is parked, and stays scheduled until then.

local tickets, sequence, schedule, parked, reasons = KEYS[1], {KEYS[2], KEYS[6]}, KEYS[3], KEYS[4], KEYS[5]

local wrong = mistyped(tickets, 'hash', KEYS[2], 'string', schedule, 'zset', parked, 'zset', reasons, 'hash')
if wrong then return wrong end

even_when_full(tickets)
local now, known = clock(), 0
for a = 2, #ARGV do
  local id = ARGV[a]
  local current = redis.call('HGET', tickets, id)
  if current then
    known = known + 1
    local fresh = take_ticket(sequence, now)
    redis.call('ZADD', parked, 'NX', now, id)
    redis.call('HSET', reasons, id, ARGV[1])
    redis.call('HSET', tickets, id, fresh .. lane_behind(current) .. rule_behind(current) .. sub(current, 17))
    redis.call('ZREM', schedule, id)
  end
end
return known
