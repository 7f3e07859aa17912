-- lease: read a shard for a consumer group, alone.
--
-- KEYS[1]  leases      HASH    group -> token|expiry|consumer
-- KEYS[2]  ticket_seq  STRING
-- KEYS[3]  ticket_mark STRING
-- ARGV[1]  the group
-- ARGV[2]  the consumer
-- ARGV[3]  for how many ms
--
-- Returns the token; or '', for how many ms another consumer still has the lease, and
-- that consumer.

local wrong = mistyped(KEYS[1], 'hash', KEYS[2], 'string')
if wrong then return wrong end

local group, consumer, ttl, now = ARGV[1], ARGV[2], tonumber(ARGV[3]), clock()
local lease = redis.call('HGET', KEYS[1], group)
if lease and #lease >= 30 then
  local left, holder = (tonumber(sub(lease, 16, 28)) or 0) - now, sub(lease, 30)
  if left > 0 and holder ~= consumer then return { '', left, holder } end
end
even_when_full(KEYS[1])
local token = take_ticket({KEYS[2], KEYS[3]}, now)
redis.call('HSET', KEYS[1], group, token .. '|' .. stamp(now + ttl) .. '|' .. consumer)
return { token }
