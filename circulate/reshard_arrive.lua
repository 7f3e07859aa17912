-- arrive: put accounts that departed from another shard into this one, each once.
--
-- KEYS[1]   tickets     HASH  id -> current ticket and what follows it
-- KEYS[2]   ticket_seq  STRING
-- KEYS[3]   schedule    ZSET  id -> due
-- KEYS[4]   parked      ZSET  id -> parked at
-- KEYS[5]   arrivals    SET   ids that have arrived; '' always
-- KEYS[6]   ticket_mark STRING
-- KEYS[7…14] the outbox: see sends.lua
-- KEYS[15…] accounts, and the other HASHes that have a field for each account, in
--           the order that depart has them
-- then two for each account that remembers: known:ID and known_before:ID  SETs
-- ARGV[1], ARGV[2]  the channel to wake replicas on, and the shard
-- ARGV[3]   the accounts, as depart wrote them
-- then five for each account that remembers: its id, and what known_of returned
--
-- Returns how many arrived, or -1 if the shard accepts none from others: it never did,
-- or no longer does.

local tickets, sequence, schedule, parked, arrivals = KEYS[1], {KEYS[2], KEYS[6]}, KEYS[3], KEYS[4], KEYS[5]
local FIELDS, box = 15, outbox(7)
local last = #KEYS - 2 * (#ARGV - 3) / 5

local wrong = mistyped(tickets, 'hash', KEYS[2], 'string', schedule, 'zset', parked, 'zset', arrivals, 'set')
for k = FIELDS, last do wrong = wrong or mistyped(KEYS[k], 'hash') end
wrong = wrong or outbox_mistyped(box)
if wrong then return wrong end
if redis.call('EXISTS', arrivals) == 0 then return -1 end

local all, from = ARGV[3], 1
local function read()
  if byte(all, from) == 45 then
    from = from + 1
    return false
  end
  local colon = string.find(all, ':', from, true)
  local first = colon + 1
  from = first + tonumber(sub(all, from, colon - 1))
  return sub(all, first, from - 1)
end

local remembers = {}
for a = 4, #ARGV, 5 do remembers[ARGV[a]] = a end

even_when_full(tickets)
local now, came = clock(), 0
local was_first, first = first_due(schedule), math.huge
while from <= #all do
  local id, place, at, behind = read(), read(), read(), read()
  local fields = {}
  for k = FIELDS, last do fields[k] = read() end
  local sends = (place == 'S' or place == 'P') and read()
  -- An account that has arrived before may have been deregistered since: a repeated
  -- departure, however late, must not bring it back.
  if redis.call('SISMEMBER', arrivals, id) == 0 and redis.call('HEXISTS', tickets, id) == 0 then
    if place == 'p' or place == 'P' then
      redis.call('ZADD', parked, at, id)
    else
      redis.call('ZADD', schedule, at, id)
      first = math.min(first, tonumber(at))
    end
    for k = FIELDS, last do
      if fields[k] then redis.call('HSET', KEYS[k], id, fields[k]) end
    end
    redis.call('HSET', tickets, id, take_ticket(sequence, now) .. behind)
    if sends then unpack_sends(box, sends, now) end
    local a = remembers[id]
    if a then
      local own = last + 2 * (a - 4) / 5
      know(KEYS[own + 1], KEYS[own + 2], ARGV[a + 1], ARGV[a + 2], ARGV[a + 3], ARGV[a + 4])
    end
    came = came + 1
  end
  redis.call('SADD', arrivals, id)
end
if first < was_first then wake(ARGV[1], ARGV[2], first) end
return came
