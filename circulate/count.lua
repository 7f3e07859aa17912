-- count: how many accounts of a shard are where, at one moment.
--
-- KEYS[1]  tickets          HASH
-- KEYS[2]  schedule         ZSET  id -> due
-- KEYS[3]  message_queue    LIST
-- KEYS[4]  processing_list  LIST
-- KEYS[5]  parked           ZSET
-- KEYS[6]  messages         STREAM
-- KEYS[7]  message_queue:urgent  LIST
-- KEYS[8]  message_queue:low     LIST
-- KEYS[9]  message_queue:by_kind ZSET
--
-- Returns {now, registered, scheduled, entries in the normal lane, claimed, parked,
-- messages, entries in the urgent lane, in the low lane, the first due time or '',
-- the oldest entry of each lane or '', entries that wait by kind, the first one of each
-- of KINDS kinds at most}.

local tickets, schedule, queue, processing, parked = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local messages, urgent, low = KEYS[6], KEYS[7], KEYS[8]

local KINDS = 16

local function first_of_kinds(by_kind)
  local firsts, from = {}, '-'
  while #firsts < KINDS do
    local member = redis.call('ZRANGEBYLEX', by_kind, from, '+', 'LIMIT', 0, 1)[1]
    if not member then break end
    firsts[#firsts + 1], from = entry_of(member), '(' .. kind_of(member) .. '\n'
  end
  return firsts
end

local function oldest(lane) return redis.call('LINDEX', lane, -1) or '' end

local first = redis.call('ZRANGE', schedule, 0, 0, 'WITHSCORES')
return {
  clock(), redis.call('HLEN', tickets), redis.call('ZCARD', schedule), redis.call('LLEN', queue),
  redis.call('LLEN', processing), redis.call('ZCARD', parked), redis.call('XLEN', messages),
  redis.call('LLEN', urgent), redis.call('LLEN', low),
  first[2] or '', oldest(queue), oldest(urgent), oldest(low), redis.call('ZCARD', KEYS[9]), first_of_kinds(KEYS[9]),
}
