-- renew: renew leases of many groups of a shard, at once.
--
-- KEYS[1]  leases    HASH    group -> token|expiry|consumer
-- KEYS[2]  messages  STREAM
-- ARGV     of each lease: the group, the consumer, its token, and for how many ms
--          it lives; 256 leases at most
--
-- Returns a text with a digit for each: 0 the lease is lost, 1 it is valid and the group
-- has read everything, 2 it is valid and there may be something to read. Then how many
-- messages are pending in each one's group.

local stream, now = KEYS[2], clock()
local names = {}
for i = 1, #ARGV, 4 do names[#names + 1] = ARGV[i] end
local leases = redis.call('HMGET', KEYS[1], unpack(names))

-- How far a group has read. A Redis before 7, or one that has lost count, does not report
-- the distance from the end, or reports it wrongly.
local found, wrong = groups_of(stream)
if wrong then return wrong end
local last
local function behind(group)
  local fields = found[group]
  if not fields then return true end -- the reader will see
  if fields.lag == 0 then return false end
  last = last or end_of(stream)
  return fields['last-delivered-id'] ~= last
end

local out, renewed, reply = {}, {}, {''}
for i, group in ipairs(names) do
  local consumer, token, ttl = ARGV[4 * i - 2], ARGV[4 * i - 1], tonumber(ARGV[4 * i])
  local lease = leases[i]
  reply[i + 1] = found[group] and found[group].pending or 0
  if not lease or sub(lease, 1, 14) ~= token or sub(lease, 30) ~= consumer then
    out[i] = '0'
  else
    renewed[#renewed + 1] = group
    renewed[#renewed + 1] = token .. '|' .. stamp(now + ttl) .. '|' .. consumer
    out[i] = behind(group) and '2' or '1'
  end
end
if renewed[1] then
  even_when_full(KEYS[1])
  redis.call('HSET', KEYS[1], unpack(renewed))
end
reply[1] = table.concat(out)
return reply
