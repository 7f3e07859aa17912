-- recallkind: take accounts out of message_queue:by_kind and let them wait for any
-- replica.
--
-- KEYS[1]  message_queue:by_kind  ZSET
-- KEYS[2]  tickets          HASH  id -> current ticket and what stands behind it
-- KEYS[3]  ticket_seq       STRING
-- KEYS[4]  ticket_mark      STRING
-- KEYS[5]  kinds            HASH  id -> kind
-- KEYS[6]  set_aside        LIST
-- KEYS[7…9] message_queue:urgent, message_queue and message_queue:low  LISTs
-- ARGV[1], ARGV[2]  the channel to wake replicas on, and the shard
-- ARGV[3]  how many, at most
-- ARGV[4]  of which kind; empty = of all
--
-- Returns how many were taken out, void ones among them.

local by_kind, tickets, sequence, kinds, set_aside = KEYS[1], KEYS[2], {KEYS[3], KEYS[4]}, KEYS[5], KEYS[6]
local lanes = {u = KEYS[7], n = KEYS[8], l = KEYS[9]}
local most, kind = tonumber(ARGV[3]), ARGV[4]

local wrong = mistyped(by_kind, 'zset', tickets, 'hash', KEYS[3], 'string', kinds, 'hash', set_aside, 'list',
  lanes.u, 'list', lanes.n, 'list', lanes.l, 'list')
if wrong then return wrong end

local members = kind == '' and redis.call('ZRANGE', by_kind, 0, most - 1) or members_of(by_kind, kind, most)
if #members == 0 then return 0 end

even_when_full(tickets)
local now = clock()
local fresh = take_ticket(sequence, now)
local once = {}
for i, member in ipairs(members) do
  local entry = entry_of(member)
  local id = sub(entry, ID)
  local current = redis.call('HGET', tickets, id)
  if not well_formed(entry) then
    redis.call('LPUSH', set_aside, member)
    redis.call('LTRIM', set_aside, 0, 999)
  elseif current and ticket_of(current) == ticket_of(entry) and not once[id] then
    once[id] = true
    redis.call('RPUSH', lanes[lane_of(current)], fresh .. sub(entry, 15))
    redis.call('HSET', tickets, id, fresh .. sub(current, 15))
  end
  redis.call('HDEL', kinds, id)
end
redis.call('ZREM', by_kind, unpack(members))
wake(ARGV[1], ARGV[2], now)
return #members
