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
-- ARGV[6]  the traceparent that goes with the messages, or ''
-- then, if the account remembers: what known.lua gets of a page
-- then, four for each message: id, type, time, data
-- then, with the outbox, five for each window: which of the messages opens it, peer, for how long, ms, how often or -, its
--   token; and how many arguments those are
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
local opens = #KEYS >= 14
local newer, older = nil, nil
if #KEYS == 8 or #KEYS == 16 then newer, older = KEYS[#KEYS - 1], KEYS[#KEYS] end
local first = newer and 11 + ARGV[10] or 7

local wrong = mistyped(processing, 'list', tickets, 'hash', KEYS[3], 'string')
if not wrong and (#ARGV >= first or ARGV[3] ~= 'keep') then -- a renewal writes neither
  wrong = mistyped(cursors, 'hash', messages, 'stream')
end
local last = #ARGV
if opens then
  -- shared here
  wrong = wrong or outbox_mistyped(outbox(7))
  last = last - 1 - tonumber(ARGV[last])
end
if wrong then return wrong end
local now = clock()
local page, remember, judge
if newer then
  -- shared here
  page, remember, judge = recall(newer, older, 7, now)
  if not page then return remember end
end

-- A full Redis accepts no messages: it refuses the ticket.
if #ARGV < first then even_when_full(tickets) end
local current = redis.call('HGET', tickets, id)
local fresh = take_ticket(sequence, now)
if redis.call('LREM', processing, -1, entry) ~= 1 or not current or ticket_of(current) ~= ticket_of(entry) then
  return false
end
local trace = ARGV[6] == '' and {} or {'trace', ARGV[6]}
local repeated, repeats = 0, opens and {} -- the latter open no window
for a = first, last, 4 do
  if judge and judge() then
    repeated = repeated + 1
    if opens then repeats[(a - first) / 4 + 1] = true end
  else
    local added = redis.pcall('XADD', messages, '*', 'account', id, 'kind', kind,
      'id', ARGV[a], 'type', ARGV[a + 1], 'time', ARGV[a + 2], 'data', ARGV[a + 3], unpack(trace))
    if type(added) == 'table' and added.err then
      redis.call('RPUSH', processing, entry) -- the stream accepts nothing more
      if page then remember(page, fresh, (a - first) / 4) end
      return added
    end
  end
end
local over = page and remember(page, fresh)
if opens then
  -- shared here
  for a = last + 1, #ARGV - 1, 5 do
    if not repeats[tonumber(ARGV[a])] then open_window(outbox(7), now, id, ARGV[a + 1], ARGV[a + 2], ARGV[a + 3], ARGV[a + 4]) end
  end
end
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
if page then return renewed .. (repeated + over == 0 and '|0|0' or '|' .. repeated .. '|' .. over) end
return renewed
