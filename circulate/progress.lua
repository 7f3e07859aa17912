-- progress: write one page of a check that has more, and renew the claim.
--
-- KEYS[1]  processing_list  LIST
-- KEYS[2]  tickets          HASH    id -> current ticket, short cursor
-- KEYS[3]  ticket_seq       STRING
-- KEYS[4]  cursors          HASH    id -> long cursor
-- KEYS[5]  messages         STREAM
-- KEYS[6]  ticket_mark      STRING
-- then, if the account remembers its messages:
-- KEYS[7]  known:ID         SET     marks, as known.lua has them
-- KEYS[8]  known_before:ID  SET     older marks
-- ARGV[1]  the entry as claimed
-- ARGV[2]  the kind that goes with the messages
-- ARGV[3]  keep, set or drop: what happens to the cursor
-- ARGV[4]  the cursor to set, otherwise empty
-- ARGV[5]  MARK_OK if a call of the check has succeeded completely, otherwise '-'
-- then, if the account remembers: the messages' marks, how many marks at most, for how many ms
-- then, four for each message: id, type, time, data
--
-- A Redis at its memory limit refuses a page with messages, before anything is
-- written.
--
-- Returns the entry that the claim has from now on, or false if it was lost and nothing
-- was written. If the account remembers, there follow |, how many messages were
-- repetitions, |, and 1 if marks were dropped before their time, otherwise 0.

local processing, tickets, sequence, cursors, messages = KEYS[1], KEYS[2], {KEYS[3], KEYS[6]}, KEYS[4], KEYS[5]
local entry, kind = ARGV[1], ARGV[2]
local id = sub(entry, ID)
local newer, older = KEYS[7], KEYS[8]
local first = newer and 9 or 6

local wrong = mistyped(processing, 'list', tickets, 'hash', KEYS[3], 'string')
if not wrong and (#ARGV >= first or ARGV[3] ~= 'keep') then -- a renewal writes neither
  wrong = mistyped(cursors, 'hash', messages, 'stream')
end
if wrong then return wrong end
local now = clock()
local judge, remember
if newer then
  -- shared here
  judge, remember = recall(newer, older, ARGV[6], tonumber(ARGV[7]), tonumber(ARGV[8]), now)
  if not judge then return remember end
end

-- A full Redis accepts no messages: it refuses the ticket.
if #ARGV < first then even_when_full(tickets) end
local current = redis.call('HGET', tickets, id)
local fresh = take_ticket(sequence, now)
if redis.call('LREM', processing, -1, entry) ~= 1 or not current or ticket_of(current) ~= ticket_of(entry) then
  return false
end
local repeated = 0
for a = first, #ARGV, 4 do
  if judge and judge() then
    repeated = repeated + 1
  else
    local added = redis.pcall('XADD', messages, '*', 'account', id, 'kind', kind,
      'id', ARGV[a], 'type', ARGV[a + 1], 'time', ARGV[a + 2], 'data', ARGV[a + 3])
    if type(added) == 'table' and added.err then
      redis.call('RPUSH', processing, entry) -- the stream accepts nothing more
      if judge then remember(fresh, true) end
      return added
    end
  end
end
local over = judge and remember(fresh)
local renewed = fresh .. '|' .. stamp(now) .. '|' .. sub(entry, 30, 39) .. '|' .. id
redis.call('LPUSH', processing, renewed)
local cursor = cursor_behind(current)
if ARGV[3] == 'set' and #ARGV[4] > SHORT then
  redis.call('HSET', cursors, id, ARGV[4])
  cursor = ''
elseif ARGV[3] ~= 'keep' then
  if #current == 32 then redis.call('HDEL', cursors, id) end -- it may be a long one
  cursor = ARGV[4]
end
local history = history_behind(current)
if ARGV[5] == MARK_OK then history = seconds(now) .. MARK_OK .. sub(history, 9, 15) end
redis.call('HSET', tickets, id, fresh .. sub(current, 15, 16) .. history .. cursor)
if judge then return renewed .. '|' .. repeated .. '|' .. over end
return renewed
