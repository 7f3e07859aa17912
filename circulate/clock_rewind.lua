-- rewind: after Redis' clock went back, shorten leases of consumer groups and nudges,
-- which end by it. Also correct since when accounts are parked. Doing it twice equals
-- doing it once, except that nudges take effect earlier each time.
--
-- KEYS[1]  leases   HASH  group -> token|expiry|consumer
-- KEYS[2]  nudges   HASH  id -> due|expiry|hint
-- KEYS[3]  parked   ZSET  id -> parked at
-- ARGV[1]  by how many ms the clock went back
-- ARGV[2]  what to continue with: leases CURSOR, nudges CURSOR or parked 0
-- ARGV[3]  see ARGV[2]
-- ARGV[4]  about how many to look at
--
-- Returns {what to continue with, its cursor, how many were changed}; '' at the end.

local leases, nudges, parked = KEYS[1], KEYS[2], KEYS[3]
local back, which, cursor, count = tonumber(ARGV[1]), ARGV[2], ARGV[3], ARGV[4]

local wrong = mistyped(leases, 'hash', nudges, 'hash', parked, 'zset')
if wrong then return wrong end

-- A consumer's lease is shorter.
local LEASE = 60000

local now, changed = clock(), 0
even_when_full(leases)

if which == 'parked' then
  local ids = redis.call('ZRANGEBYSCORE', parked, '(' .. format('%.0f', now), '+inf', 'LIMIT', 0, count)
  for _, id in ipairs(ids) do redis.call('ZADD', parked, now, id) end
  if #ids > 0 then return {which, '0', #ids} end
  return {'', '0', 0}
end

local key = which == 'leases' and leases or nudges
local page = redis.call('HSCAN', key, cursor, 'COUNT', count)
for i = 1, #page[2], 2 do
  local field, value = page[2][i], page[2][i + 1]
  if which == 'leases' then
    local left = (tonumber(sub(value, 16, 28)) or 0) - now
    if left > LEASE then
      redis.call('HSET', leases, field, sub(value, 1, 15) .. stamp(now + math.max(0, left - back)) .. sub(value, 29))
      changed = changed + 1
    end
  else
    local due, expiry = tonumber(sub(value, 1, 13)) or 0, tonumber(sub(value, 15, 27)) or 0
    if due > now or expiry > now + back then
      if due > now then due = math.max(now, due - back) end
      if expiry > now + back then expiry = expiry - back end
      redis.call('HSET', nudges, field, stamp(due) .. '|' .. stamp(expiry) .. sub(value, 28))
      changed = changed + 1
    end
  end
end
if page[1] ~= '0' then return {which, page[1], changed} end
return {which == 'leases' and 'nudges' or 'parked', '0', changed}
