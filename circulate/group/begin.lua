-- lease: read a shard for consumer groups, each alone; takes the leases of many at once.
--
-- KEYS[1]  leases      HASH    group -> token|expiry|consumer
-- KEYS[2]  ticket_seq  STRING
-- KEYS[3]  ticket_mark STRING
-- KEYS[4]  messages    STREAM
-- ARGV     of each lease: the group, the consumer, and for how many ms; 256 leases
--          at most
--
-- Returns three values for each: the token, or '' if another consumer has the lease; for
-- how many ms that consumer still has it; and, for a group that has nothing unread,
-- nothing pending and no consumer's name in the shard, the last position read, or ''.

local wrong = mistyped(KEYS[1], 'hash', KEYS[2], 'string', KEYS[4], 'stream')
if wrong then return wrong end

local stream, now = KEYS[4], clock()
local names = {}
for i = 1, #ARGV, 3 do names[#names + 1] = ARGV[i] end
local leases = redis.call('HMGET', KEYS[1], unpack(names))
local found = groups_of(stream)
even_when_full(KEYS[1])
local _, ticket = take_ticket({KEYS[2], KEYS[3]}, now, #names)

local out, taken, n = {}, {}, 0
for i, group in ipairs(names) do
  local consumer, ttl, lease = ARGV[3 * i - 1], tonumber(ARGV[3 * i]), leases[i]
  local left = lease and #lease >= 30 and (tonumber(sub(lease, 16, 28)) or 0) - now or 0
  if taken[group] or left > 0 and sub(lease, 30) ~= consumer then
    out[n + 1], out[n + 2], out[n + 3] = '', taken[group] or left, ''
  else
    local token, fields = format('%014d', ticket + i - 1), found[group]
    redis.call('HSET', KEYS[1], group, token .. '|' .. stamp(now + ttl) .. '|' .. consumer)
    taken[group] = ttl
    local last = fields and fields.pending == 0 and fields.consumers == 0 and fields['last-delivered-id'] or ''
    -- A Redis before 7, or one that has lost count, reports no lag or a wrong one.
    if last ~= '' and fields.lag ~= 0 and redis.call('XRANGE', stream, '(' .. last, '+', 'COUNT', 1)[1] then last = '' end
    out[n + 1], out[n + 2], out[n + 3] = token, 0, last
  end
  n = n + 3
end
return out
