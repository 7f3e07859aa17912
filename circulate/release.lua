-- release: release claims, unchecked, next in line.
--
-- KEYS[1]  processing_list  LIST
-- KEYS[2]  message_queue    LIST
-- KEYS[3]  tickets          HASH  id -> current ticket, short cursor
-- KEYS[4]  ticket_seq       STRING
-- KEYS[5]  message_queue:urgent  LIST
-- KEYS[6]  message_queue:low     LIST
-- KEYS[7]  ticket_mark      STRING
-- ARGV[1], ARGV[2]  the channel to wake replicas on, and the shard
-- then pairs: the entry as claimed, since when it had been due (ms)
--
-- Returns how many went back; the others were no longer held.

local processing, queue, tickets, sequence = KEYS[1], KEYS[2], KEYS[3], {KEYS[4], KEYS[7]}

local lanes = {u = KEYS[5], n = queue, l = KEYS[6]}

local wrong = mistyped(processing, 'list', queue, 'list', tickets, 'hash', KEYS[4], 'string',
  KEYS[5], 'list', KEYS[6], 'list')
if wrong then return wrong end

even_when_full(tickets)
local now = clock()
local entries, n, back = {}, #ARGV / 2 - 1, 0
for i = 1, n do entries[i] = ARGV[2 * i + 1] end
local fresh = take_ticket(sequence, now)
local removed = remove(processing, entries)
-- The last one is pushed first, so that the first one is claimed first again.
for i = n, 1, -1 do
  local entry = entries[i]
  local id = sub(entry, ID)
  local current = redis.call('HGET', tickets, id)
  if removed[i] and current and ticket_of(current) == ticket_of(entry) then
    redis.call('HSET', tickets, id, fresh .. sub(current, 15))
    redis.call('RPUSH', lanes[lane_of(current)], fresh .. '|' .. stamp(tonumber(ARGV[2 * i + 2])) .. '|' .. NOBODY .. '|' .. id)
    back = back + 1
  end
end
if back > 0 then wake(ARGV[1], ARGV[2], now) end
return back
