-- repair: repair what an audit found, unless it has changed since.
--
-- KEYS[1]  tickets     HASH  id -> current ticket and what follows it
-- KEYS[2]  schedule    ZSET  id -> due
-- KEYS[3]  parked      ZSET  id -> parked at
-- KEYS[4]  accounts    HASH  id -> record
-- KEYS[5]  ticket_seq  STRING
-- KEYS[6]  set_aside   LIST
-- KEYS[7]  ticket_mark STRING
-- ARGV[1], ARGV[2]  the channel to wake replicas on, and the shard
-- ARGV[3]  how, and then
--   settle ID TICKET    a fresh ticket, and one place: parked, or else where it
--                       is scheduled, or else due at once
--   restore ID DUE LANE a ticket for a record that has none; it stays where it is
--                       parked or scheduled
--   drop ID             out of schedule and parked: there is no such account
--
-- Returns 1 if something was repaired, otherwise 0.

local tickets, schedule, parked, accounts, sequence, set_aside = KEYS[1], KEYS[2], KEYS[3], KEYS[4], {KEYS[5], KEYS[7]}, KEYS[6]
local how, id = ARGV[3], ARGV[4]

local wrong = mistyped(tickets, 'hash', schedule, 'zset', parked, 'zset', accounts, 'hash', KEYS[5], 'string',
  set_aside, 'list')
if wrong then return wrong end

local now = clock()
local current = redis.call('HGET', tickets, id)

local function place(due)
  if redis.call('ZSCORE', parked, id) then
    redis.call('ZREM', schedule, id)
  elseif not redis.call('ZSCORE', schedule, id) then
    due = math.max(now, due)
    if due < first_due(schedule) then wake(ARGV[1], ARGV[2], due) end
    redis.call('ZADD', schedule, due, id)
  end
end

if how == 'settle' then
  if not current or ticket_of(current) ~= ARGV[5] then return 0 end
  place(now)
  renew(tickets, sequence, id, current, now)
elseif how == 'restore' then
  if current or redis.call('HEXISTS', accounts, id) == 0 then return 0 end
  place(tonumber(ARGV[5]))
  redis.call('HSET', tickets, id, take_ticket(sequence, now) .. ARGV[6] .. REGISTERED .. seconds(now) .. NO_MARKS)
else
  if current or redis.call('HEXISTS', accounts, id) == 1 then return 0 end
  redis.call('LPUSH', set_aside, 'not registered: ' .. id)
  redis.call('LTRIM', set_aside, 0, 999)
  redis.call('ZREM', schedule, id)
  redis.call('ZREM', parked, id)
end
return 1
