-- handover: hand over claims, unchecked, to the replicas that check their kinds.
--
-- KEYS[1]  processing_list  LIST
-- KEYS[2]  tickets          HASH  id -> current ticket and what follows it
-- KEYS[3]  ticket_seq       STRING
-- KEYS[4]  ticket_mark      STRING
-- KEYS[5]  message_queue:by_kind  ZSET
-- KEYS[6]  kinds            HASH  id -> kind
-- ARGV[1], ARGV[2]  the channel to wake replicas on, and the shard
-- ARGV[3]  for how many ms kinds lives once it is made
-- then three for each: the entry as claimed, since when it had been due (ms), its kind
--
-- Returns how many were handed over; the others were no longer held.

local processing, tickets, sequence, by_kind, kinds = KEYS[1], KEYS[2], {KEYS[3], KEYS[4]}, KEYS[5], KEYS[6]

local wrong, there = mistyped(processing, 'list', tickets, 'hash', KEYS[3], 'string', by_kind, 'zset', kinds, 'hash')
if wrong then return wrong end

even_when_full(tickets)
local now = clock()
local entries, n = {}, (#ARGV - 3) / 3
for i = 1, n do entries[i] = ARGV[3 * i + 1] end
local fresh = take_ticket(sequence, now)
local removed = remove(processing, entries)
local all, learned = {}, {}
for i = 1, n do
  local entry, kind = entries[i], ARGV[3 * i + 3]
  local id = sub(entry, ID)
  local current = redis.call('HGET', tickets, id)
  if removed[i] and current and ticket_of(current) == ticket_of(entry) then
    all[#all + 1] = {kind, id, current,
      fresh .. '|' .. stamp(tonumber(ARGV[3 * i + 2])) .. '|' .. NOBODY .. '|' .. id}
    learned[#learned + 1], learned[#learned + 2] = id, kind
  end
end
if #all == 0 then return 0 end
wait_by_kind(by_kind, tickets, all, ARGV[1], ARGV[2], now)
redis.call('HSET', kinds, unpack(learned))
-- The kinds are forgotten after a while, and learned again. So a namespace whose
-- replicas check all its kinds again pays nothing.
if not there[kinds] then redis.call('PEXPIRE', kinds, ARGV[3]) end
return #all
