-- load: put accounts of a backup into a shard. Registered accounts stay as they are.
--
-- KEYS[1]  tickets      HASH  id -> current ticket and what follows it
-- KEYS[2]  ticket_seq   STRING
-- KEYS[3]  schedule     ZSET  id -> due
-- KEYS[4]  parked       ZSET  id -> parked at
-- KEYS[5]  leaving      STRING  if it exists, the shard's accounts go to other shards
-- KEYS[6]  ticket_mark  STRING
-- KEYS[7…] accounts, and the other HASHes that have a field for each account, as dump has
--          them
-- then two for each account: known:ID and known_before:ID  SETs
-- ARGV[1], ARGV[2]  the channel to wake replicas on, and the shard
-- ARGV[3]  how many arguments an account has
-- ARGV[4…] for each account its id, and what dump returned for it, with four texts of what
--          it remembers
--
-- Returns how many were put there, or -1 if the shard's accounts go to other shards.

local tickets, sequence, schedule, parked, leaving = KEYS[1], {KEYS[2], KEYS[6]}, KEYS[3], KEYS[4], KEYS[5]
local FIELDS = 7
local width = tonumber(ARGV[3])
local last = #KEYS - 2 * (#ARGV - 3) / width

local wrong = mistyped(tickets, 'hash', KEYS[2], 'string', schedule, 'zset', parked, 'zset', leaving, 'string')
for k = FIELDS, last do wrong = wrong or mistyped(KEYS[k], 'hash') end
if wrong then return wrong end
if redis.call('EXISTS', leaving) == 1 then return -1 end

local now, came = clock(), 0
local was_first, first = first_due(schedule), math.huge
for a = 4, #ARGV, width do
  local id, place, at, behind = ARGV[a], ARGV[a + 1], ARGV[a + 2], ARGV[a + 3]
  if redis.call('HEXISTS', tickets, id) == 0 then
    if place == 'p' then
      redis.call('ZADD', parked, at, id)
    else
      if place == 'w' then at = now end
      redis.call('ZADD', schedule, at, id)
      first = math.min(first, tonumber(at))
    end
    for k = FIELDS, last do
      local value = ARGV[a + 4 + k - FIELDS]
      if value ~= '' then redis.call('HSET', KEYS[k], id, value) end
    end
    redis.call('HSET', tickets, id, take_ticket(sequence, now) .. behind)
    local own, memory = last + 2 * (a - 4) / width, a + width - 4
    know(KEYS[own + 1], KEYS[own + 2], ARGV[memory], ARGV[memory + 1], ARGV[memory + 2], ARGV[memory + 3])
    came = came + 1
  end
end
if first < was_first then wake(ARGV[1], ARGV[2], first) end
return came
