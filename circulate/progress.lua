-- progress: write one page of a check that has more, and keep the claim.
--
-- KEYS[1]  processing_list  LIST
-- KEYS[2]  tickets          HASH    id -> current ticket, short cursor
-- KEYS[3]  ticket_seq       STRING
-- KEYS[4]  cursors          HASH    id -> long cursor
-- KEYS[5]  messages         STREAM
-- ARGV[1]  the entry as claimed
-- ARGV[2]  the kind that goes with the messages
-- ARGV[3]  keep, set or drop: what becomes of the cursor
-- ARGV[4]  the cursor to set, otherwise empty
-- then, four for each message: id, type, time, data
--
-- A Redis at its memory limit refuses a page with messages, before anything is
-- written.
--
-- Returns the entry that the claim has from now on, or false if it was lost and
-- nothing was written.

local processing, tickets, ticket_seq, cursors, messages = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local entry, kind = ARGV[1], ARGV[2]
local id = sub(entry, ID)

local wrong = mistyped(processing, 'list', tickets, 'hash', ticket_seq, 'string', cursors, 'hash', messages, 'stream')
if wrong then return wrong end

-- Messages are not taken by a Redis that is full.
if #ARGV > 4 then only_with_room(ticket_seq) else even_when_full(tickets) end
local current = redis.call('HGET', tickets, id)
if redis.call('LREM', processing, -1, entry) ~= 1 or not current or ticket_of(current) ~= ticket_of(entry) then
  return false
end
local now = clock()
local fresh = take_ticket(ticket_seq, now)
local renewed = fresh .. '|' .. stamp(now) .. '|' .. sub(entry, 30, 39) .. '|' .. id
redis.call('LPUSH', processing, renewed)
local cursor = cursor_behind(current)
if ARGV[3] == 'set' and #ARGV[4] > SHORT then
  redis.call('HSET', cursors, id, ARGV[4])
  cursor = ''
elseif ARGV[3] ~= 'keep' then
  redis.call('HDEL', cursors, id)
  cursor = ARGV[4]
end
redis.call('HSET', tickets, id, fresh .. sub(current, 15, 32) .. cursor)
for a = 5, #ARGV, 4 do
  redis.call('XADD', messages, '*', 'account', id, 'kind', kind,
    'id', ARGV[a], 'type', ARGV[a + 1], 'time', ARGV[a + 2], 'data', ARGV[a + 3])
end
return renewed
