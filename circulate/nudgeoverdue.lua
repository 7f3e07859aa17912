-- nudgeoverdue: nudge accounts to now, as far as they are overdue.
--
-- KEYS[1]  schedule              ZSET  id -> due
-- KEYS[2]  tickets               HASH  id -> current ticket and what follows it
-- KEYS[3]  message_queue:urgent  LIST
-- ARGV     the ids, the first one is next in line
--
-- Replicas are not woken: they know that something is due.
--
-- Returns how many went to the urgent lane. The others are not due, or not in the
-- schedule.

local schedule, tickets, urgent = KEYS[1], KEYS[2], KEYS[3]

local wrong = mistyped(schedule, 'zset', tickets, 'hash', urgent, 'list')
if wrong then return wrong end

even_when_full(tickets)
local now, moved, once = clock(), 0, {}
local dues, standing = redis.call('ZMSCORE', schedule, unpack(ARGV)), redis.call('HMGET', tickets, unpack(ARGV))
for i, id in ipairs(ARGV) do
  local due = tonumber(dues[i] or now)
  if standing[i] and due < now and not once[id] then
    once[id] = true
    move_to_front(schedule, urgent, tickets, id, standing[i], due)
    moved = moved + 1
  end
end
return moved
