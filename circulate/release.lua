-- release: put claims back unchecked, next in line.
--
-- KEYS[1]  processing_list  LIST
-- KEYS[2]  message_queue    LIST
-- KEYS[3]  tickets          HASH  id -> current ticket, short cursor
-- KEYS[4]  ticket_seq       STRING
-- KEYS[5]  message_queue:urgent  LIST
-- KEYS[6]  message_queue:low     LIST
-- ARGV[1], ARGV[2]  the channel to wake replicas on, and the shard
-- then pairs: the entry as claimed, since when it had been due (ms)
--
-- Returns how many went back; the others were no longer held.

local processing, queue, tickets, ticket_seq = KEYS[1], KEYS[2], KEYS[3], KEYS[4]

local lanes = {u = KEYS[5], n = queue, l = KEYS[6]}

local wrong = mistyped(processing, 'list', queue, 'list', tickets, 'hash', ticket_seq, 'string',
  KEYS[5], 'list', KEYS[6], 'list')
if wrong then return wrong end

even_when_full(tickets)
local now = clock()
local back = 0
-- The last is pushed first, so that the first is the first to be taken again.
for a = #ARGV - 1, 3, -2 do
  local entry = ARGV[a]
  local id = sub(entry, ID)
  local current = redis.call('HGET', tickets, id)
  if redis.call('LREM', processing, -1, entry) == 1 and current and ticket_of(current) == ticket_of(entry) then
    local fresh = renew(tickets, ticket_seq, id, current, now)
    redis.call('RPUSH', lanes[lane_of(current)], fresh .. '|' .. stamp(tonumber(ARGV[a + 1])) .. '|' .. NOBODY .. '|' .. id)
    back = back + 1
  end
end
if back > 0 then wake(ARGV[1], ARGV[2], now) end
return back
