-- return: return claimed accounts with what their checks found.
--
-- KEYS[1]   processing_list  LIST
-- KEYS[2]   message_queue    LIST
-- KEYS[3]   schedule         ZSET    id -> due
-- KEYS[4]   tickets          HASH    id -> current ticket and what follows it
-- KEYS[5]   ticket_seq       STRING
-- KEYS[6]   ticket_mark      STRING
-- KEYS[7]   strikes          HASH    id -> requeues since the last return
-- KEYS[8]   nudges           HASH    id -> due|expiry|hint
-- KEYS[9]   errors           HASH    id -> when|what went wrong with its last check
-- KEYS[10]  message_queue:urgent  LIST
-- KEYS[11]  message_queue:low     LIST
-- then, if some accounts have values that not all have:
-- KEYS[12]  cursors          HASH    id -> long cursor
-- KEYS[13]  failures         HASH    id -> failures in a row
-- KEYS[14]  states           HASH    id -> what its cadence keeps
-- KEYS[15]  parked           ZSET    id -> parked at
-- KEYS[16]  park_reasons     HASH    id -> reason
-- KEYS[17]  messages         STREAM
-- KEYS[18], KEYS[19]  timeline  STREAMs, where there are lines or windows
-- KEYS[20…27]  the outbox, if a message lets its peer be answered: see sends.lua
-- then two for each account that brings messages and remembers them, in order:
-- known:ID          SET     marks, as known.lua has them
-- known_before:ID   SET     older marks
-- ARGV[1]   of each of n accounts, one behind the other: the rule that decided (a letter),
--   the check's mark (a letter; '-' = it was not checked), next due (a stamp; a past time
--   means now)
-- then the n entries as claimed
-- then, if some accounts have values that not all have, a text of n letters; then for each
-- account that remembers: how many messages of the check's earlier pages were repetitions,
-- and what known.lua gets of a page. The values of each
-- letter follow in order: '-' nothing · c CURSOR · m one message, ID TYPE TIME DATA, of
-- the kind of the message before, which has no trace · M KIND TRACE N FOUND, and N messages,
-- TRACE their traceparent or '', FOUND with the messages of the check's earlier pages · b CURSOR and as m · B CURSOR and as M · r and R as M and B,
-- of an account that remembers
-- then, with i the place among the n:
--   found i FOUND, if only earlier pages had messages · line i EVENT N TEXT · nocursor i ·
--   failures i N · state i VALUE · error i TEXT, after its line · park i REASON ·
--   window i J PEER HOW-LONG HOW-OFTEN TOKEN, of its Jth message, in ms, - for any number
-- and at last, if there is any line or window, how many lines timelines hold, or ''
--
-- A Redis at its memory limit refuses a batch with messages before anything is written,
-- and accepts any other.
--
-- Returns a text of n letters: 1 if everything was written, 2 if it was written and a
-- nudge made the account due earlier, 0 if the claim was lost and nothing was written. Then
-- follow, for each account that remembers and had repetitions or dropped marks before
-- their time, ;, its place, :, how many messages were repetitions, :, and 1 if it dropped
-- marks, otherwise 0.

local processing, queue, schedule, tickets, ticket_seq, ticket_mark, strikes, nudges, errors, urgent, low,
  cursors, failures, states, parked, reasons, messages, timeline, routine = unpack(KEYS)
local whats = ARGV[1]
local n = #whats / 15
local some = cursors and ARGV[n + 2]
local brings = some and string.find(some, '[mbMBrR]')
local remembering = brings and string.find(some, '[rR]') and #string.gsub(some, '[^rR]', '')
local usual = #KEYS - 2 * (remembering or 0)
local ends, opens = usual >= 19 and 1 or 0, usual >= 27
if ends == 0 or ARGV[#ARGV] == '' then timeline, routine = nil, nil end

-- Types are checked before the first write, by reading. Tickets, their sequence and
-- processing_list are checked by their first write, which then has no effect.
local now = clock()
local by_now = stamp(now)
local struck, nudged, erred = false, false, false
local found = redis.call('EXISTS', strikes, nudges, errors, urgent, low)
if found > 0 then
  erred = redis.call('HLEN', errors) > 0
  if erred then found = found - 1 end
end
if found > 0 then
  struck, nudged = redis.call('HLEN', strikes) > 0, redis.call('HLEN', nudges) > 0
  redis.call('LLEN', urgent)
  redis.call('LLEN', low)
end
-- A single account that no nudge moves goes to either the schedule or the lane.
local to = n == 1 and not nudged and sub(whats, 3)
if not to or to <= by_now then redis.call('LLEN', queue) end
if not to or to > by_now then redis.call('ZCARD', schedule) end
if cursors then
  redis.call('HLEN', cursors)
  redis.call('HLEN', failures)
  redis.call('HLEN', states)
  redis.call('HLEN', errors)
  redis.call('HLEN', reasons)
  redis.call('ZCARD', parked)
  if brings then redis.call('XLEN', messages) end
  if opens then
    -- shared here
    local wrong = outbox_mistyped(outbox(20))
    if wrong then return wrong end
  end
end
local pages, remember, judges, earlier, values = nil, nil, nil, nil, n + 3
if remembering then
  -- shared here
  pages, judges, earlier = {}, {}, {}
  for k = 1, remembering do
    pages[k], remember, judges[k] = recall(KEYS[usual + 2 * k - 1], KEYS[usual + 2 * k], values + 1, now)
    if not pages[k] then return remember end
    earlier[k] = ARGV[values]
    values = values + 5 + ARGV[values + 4]
  end
end

-- A full Redis accepts no messages: it refuses the tickets.
if not brings then redis.call('HDEL', tickets, '') end -- as even_when_full does

local entries, ids = {unpack(ARGV, 2, n + 1)}, {sub(ARGV[2], ID)}
for i = 2, n do ids[i] = sub(entries[i], ID) end
local current = redis.call('HMGET', tickets, unpack(ids))

-- A claim is current if its entry is still in processing_list and under the current
-- ticket. The entry goes in any case: under another ticket it is void.
local fresh = take_ticket({ticket_seq, ticket_mark}, now)
local removed
if n == 1 then
  removed = {redis.call('LREM', processing, '-1', entries[1]) == 1}
else
  -- shared here
  removed = remove(processing, entries)
end
local verdict, held, count = {false}, {false}, 0
for i = 1, n do
  local at = current[i]
  if removed[i] and at and sub(at, 1, 14) == sub(entries[i], 1, 14) then
    verdict[i] = '1'
    count = count + 1
    held[count] = i
  else
    verdict[i] = '0'
  end
end
if count == 0 then return table.concat(verdict) end

-- The values that only some accounts have.
local FAILS, short, park, lines, finds, set_cursors, drop_cursors, set_failures, drop_failures
if cursors then
  FAILS = {failed = true, hindered = true, cursor_reset = true}
  short, park, lines, finds, set_cursors, drop_cursors, set_failures, drop_failures = {}, {}, {}, {}, {}, {}, {}, {}
end
local a, notes, repeats = values, '', opens and {} -- the last open no window
if some then
  local kind
  local untraced = {}
  local place = 0 -- among the accounts that remember
  for i, what in string.gmatch(some, '()([^-])') do
    local holds, id = verdict[i] == '1', ids[i]
    if what == 'c' or what == 'b' or what == 'B' or what == 'R' then
      local cursor = ARGV[a]
      a = a + 1
      if holds and #cursor > SHORT then
        short[i] = ''
        set_cursors[#set_cursors + 1], set_cursors[#set_cursors + 2] = id, cursor
      elseif holds then
        if #current[i] == 32 then drop_cursors[#drop_cursors + 1] = id end
        short[i] = cursor
      end
    end
    if what ~= 'c' then
      local many, found, trace = 1, '1', untraced
      if what ~= 'm' and what ~= 'b' then
        kind, many, found = ARGV[a], tonumber(ARGV[a + 2]), ARGV[a + 3]
        if ARGV[a + 1] ~= '' then trace = {'trace', ARGV[a + 1]} end
        a = a + 4
      end
      local page, judge, again = nil, nil, 0
      if what == 'r' or what == 'R' then
        place = place + 1
        page = holds and pages[place]
        judge = page and judges[place]
      elseif timeline and holds then
        finds[#finds + 1], finds[#finds + 2] = id, found
      end
      for m = 1, many do
        if judge and judge() then
          again = again + 1
          if opens then repeats[i .. ':' .. m] = true end
        elseif holds then
          local added = redis.pcall('XADD', messages, '*', 'account', id, 'kind', kind,
            'id', ARGV[a], 'type', ARGV[a + 1], 'time', ARGV[a + 2], 'data', ARGV[a + 3], unpack(trace))
          if type(added) == 'table' and added.err then
            -- The stream accepts nothing more: the claims stay as they were.
            for k = 1, count do redis.call('RPUSH', processing, entries[held[k]]) end
            if page then remember(page, fresh, m - 1) end
            return added
          end
        end
        a = a + 4
      end
      if page then
        local over = remember(page, fresh)
        if again + over > 0 then notes = notes .. ';' .. i .. ':' .. again .. ':' .. over end
        if timeline then
          if found - again > 0 then finds[#finds + 1], finds[#finds + 2] = id, found - again end
          again = again + earlier[place]
          if again > 0 then lines[#lines + 1] = {i, 'repeated', again, '', false} end
        end
      end
    end
  end
end
local last = some and #ARGV - ends or 0
while a <= last do
  local op, i = ARGV[a], tonumber(ARGV[a + 1])
  local holds, id, value = verdict[i] == '1', ids[i], ARGV[a + 2]
  a = a + 3
  if op == 'found' then
    if holds then finds[#finds + 1], finds[#finds + 2] = id, value end
  elseif op == 'line' then
    if holds then lines[#lines + 1] = {i, value, ARGV[a], ARGV[a + 1], FAILS[value] and redis.call('HGET', errors, id)} end
    a = a + 2
  elseif op == 'nocursor' then
    a = a - 1
    if holds then short[i], drop_cursors[#drop_cursors + 1] = '', id end
  elseif op == 'window' then
    -- shared here
    if holds and not repeats[i .. ':' .. value] then
      open_window(outbox(20), now, id, ARGV[a], ARGV[a + 1], ARGV[a + 2], ARGV[a + 3])
    end
    a = a + 4
  elseif holds and op == 'failures' then
    if value == '0' then
      drop_failures[#drop_failures + 1] = id
    else
      set_failures[#set_failures + 1], set_failures[#set_failures + 2] = id, value
    end
  elseif holds and op == 'state' then
    if value == '' then
      redis.call('HDEL', states, id)
    else
      redis.call('HSET', states, id, value)
    end
  elseif holds and op == 'error' then
    redis.call('HSET', errors, id, stamp(now) .. '|' .. value)
  elseif holds and op == 'park' then
    park[i] = value
  end
end
if short then
  if #set_cursors > 0 then redis.call('HSET', cursors, unpack(set_cursors)) end
  if #drop_cursors > 0 then redis.call('HDEL', cursors, unpack(drop_cursors)) end
  if #set_failures > 0 then redis.call('HSET', failures, unpack(set_failures)) end
  if #drop_failures > 0 then redis.call('HDEL', failures, unpack(drop_failures)) end
end
nudged = nudged and redis.call('HMGET', nudges, unpack(ids))

-- A fresh ticket and one place each. Entries that still travel under the old ticket are
-- void from here on. Stamps are compared as texts: all have the same length.
local waits = fresh .. '|' .. by_now .. WAITS
local what, decided, mark, succeeded = nil, nil, nil, nil
-- New values for tickets, for the normal lane and for the schedule. A table that is made
-- with its first elements costs half as much as one that grows.
local issued, again, waiting, later, after = nil, nil, 0, nil, 0
local lanes -- entries for the other lanes
local healed, checked = erred and {}, struck and {} -- accounts
for k = 1, count do
  local i = held[k]
  local id, behind, at = ids[i], current[i], 15 * i - 14
  local both, due = sub(whats, at, at + 1), sub(whats, at + 2, at + 14)
  if both ~= what then
    what, decided, mark = both, sub(both, 1, 1), sub(both, 2)
  end
  local rule, lane = decided, sub(behind, 15, 15)
  if lane ~= 'u' and lane ~= 'l' then lane = 'n' end
  local success, newest, older -- the history, in three parts
  if mark == MARK_OK then
    succeeded = succeeded or format('%08x', (now - now % 1000) / 1000)
    success, newest, older = succeeded, mark, sub(behind, 25, 31)
    if erred then healed[#healed + 1] = id end
  else
    success, newest, older = sub(behind, 17, 32), '', ''
    if mark ~= '-' then
      -- Before any success the last place stays free, which shows that there was none.
      local history = success
      older = sub(history, 9, 15)
      if sub(history, 16) == '-' and not string.find(older, MARK_OK, 1, true) then older = sub(older, 1, 6) .. '-' end
      success, newest = sub(history, 1, 8), mark
    end
  end
  if struck and mark ~= '-' then checked[#checked + 1] = id end
  local nudge = nudged and nudged[i]
  if nudge then
    -- Due 0: this check was the answer, or there was no check and the hint is for the
    -- next one. Otherwise the nudge came meanwhile.
    local asked = sub(nudge, 1, 13)
    if asked == NEVER then
      if mark ~= '-' then redis.call('HDEL', nudges, id) end
    elseif asked < due and rule ~= TURN then
      due, rule = asked, NUDGED
      verdict[i] = '2'
    end
  end
  if park and park[i] then
    redis.call('ZADD', parked, now, id)
    redis.call('HSET', reasons, id, park[i])
  elseif due <= by_now then
    local entry, to = waits .. id, rule == NUDGED and 'u' or lane
    if to ~= 'n' then
      lanes = lanes or {u = {}, l = {}}
      lanes[to][#lanes[to] + 1] = entry
    elseif again then
      waiting = waiting + 1
      again[waiting] = entry
    else
      again, waiting = {entry}, 1
    end
  elseif later then
    after = after + 2
    later[after - 1], later[after] = due, id
  else
    later, after = {due, id}, 2
  end
  local renewed = fresh .. lane .. rule .. success .. newest .. older .. (short and short[i] or sub(behind, 33))
  if issued then
    issued[2 * k - 1], issued[2 * k] = id, renewed
  else
    issued = {id, renewed}
  end
end
redis.call('HSET', tickets, unpack(issued))
if again then redis.call('LPUSH', queue, unpack(again)) end
if lanes then
  if #lanes.u > 0 then redis.call('LPUSH', urgent, unpack(lanes.u)) end
  if #lanes.l > 0 then redis.call('LPUSH', low, unpack(lanes.l)) end
end
if later then redis.call('ZADD', schedule, unpack(later)) end
if healed and #healed > 0 then redis.call('HDEL', errors, unpack(healed)) end
if checked and #checked > 0 then redis.call('HDEL', strikes, unpack(checked)) end
if not short then return n == 1 and verdict[1] or table.concat(verdict) end
-- shared here
if #finds > 0 then tell_finds(routine, ARGV[#ARGV], finds) end

-- A failure in a row is a line if it is the first, the tenth, the hundredth and so on, or
-- if it differs from the one before: the text before its colon is another. The first
-- failures and the recoveries of an account that keeps changing between them are routine.
local function kind_of(text) return string.match(text, '^[^:]*') end
for _, line in ipairs(lines) do
  local i, event, count, text, before = unpack(line)
  local of, worth, flaps = history_behind(current[i]), true, 0
  if FAILS[event] and before then
    worth = kind_of(sub(before, 15)) ~= kind_of(text) or event ~= 'hindered' and string.find(count, '^10*$')
  end
  for m = 10, 16 do
    if (sub(of, m, m) == MARK_OK) ~= (sub(of, m - 1, m - 1) == MARK_OK) and sub(of, m, m) ~= '-' then flaps = flaps + 1 end
  end
  if worth then tell({timeline, routine}, ARGV[#ARGV], ids[i], event, count, text, flaps > 2 and event ~= 'parked') end
end
return table.concat(verdict) .. notes
