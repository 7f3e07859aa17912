-- return: return claimed accounts with what their checks found.
--
-- KEYS[1]   processing_list  LIST
-- KEYS[2]   message_queue    LIST
-- KEYS[3]   schedule         ZSET    id -> due
-- KEYS[4]   tickets          HASH    id -> current ticket and what follows it
-- KEYS[5]   ticket_seq       STRING
-- KEYS[6]   cursors          HASH    id -> long cursor
-- KEYS[7]   failures         HASH    id -> failures in a row
-- KEYS[8]   strikes          HASH    id -> requeues since the last return
-- KEYS[9]   nudges           HASH    id -> due|expiry|hint
-- KEYS[10]  parked           ZSET    id -> parked at
-- KEYS[11]  park_reasons     HASH    id -> reason
-- KEYS[12]  messages         STREAM
-- KEYS[13]  states           HASH    id -> what its cadence keeps
-- KEYS[14]  message_queue:urgent  LIST
-- KEYS[15]  message_queue:low     LIST
-- KEYS[16]  errors           HASH    id -> when|what went wrong with its last check
-- KEYS[17]  ticket_mark      STRING
-- KEYS[18], KEYS[19]  timeline  STREAMs, where there are lines
-- ARGV[1]   n, how many accounts
-- ARGV[2]   of each of them, one behind the other: the rule that decided (a letter),
--   the check's mark (a letter; '-' = it was not checked), next due (a stamp; what is
--   past means now)
-- then the n entries as claimed
-- then the word messages, where any come along
-- then, for some of them, with i the place among the n:
--   found i N · line i EVENT N TEXT, which come first
--   cursor i VALUE · nocursor i · failures i N · state i VALUE · park i REASON ·
--   error i TEXT
--   message i KIND ID TYPE TIME DATA
-- and at last, with any line, how many lines timelines keep, as tell takes it
--
-- A Redis at its memory limit refuses a batch with messages, before anything is
-- written, and takes any other.
--
-- Returns a text of n letters: 1 where all of it was written, 2 where it was, and
-- the account is due before that, for it was nudged, 0 where the claim was lost
-- and nothing was.

local processing, queue, schedule = KEYS[1], KEYS[2], KEYS[3]
local tickets, sequence, cursors, failures = KEYS[4], {KEYS[5], KEYS[17]}, KEYS[6], KEYS[7]
local strikes, nudges, parked, reasons = KEYS[8], KEYS[9], KEYS[10], KEYS[11]
local messages, states, urgent, low, errors = KEYS[12], KEYS[13], KEYS[14], KEYS[15], KEYS[16]
local n = tonumber(ARGV[1])

local whats = ARGV[2]
local brings = ARGV[n + 3] == 'messages'
local first, last = n + (brings and 4 or 3), #ARGV - (KEYS[18] and 1 or 0) -- of what only some have

-- Types are checked before the first write, by reading. Tickets, their sequence and
-- processing_list are checked by what comes first to them, which then has no effect.
redis.call('LLEN', queue)
redis.call('ZCARD', schedule)
local struck, nudged, erred = false, false, false
if redis.call('EXISTS', strikes, nudges, errors, urgent, low) > 0 then
  struck, nudged, erred = redis.call('HLEN', strikes) > 0, redis.call('HLEN', nudges) > 0, redis.call('HLEN', errors) > 0
  redis.call('LLEN', urgent)
  redis.call('LLEN', low)
end
if first <= last then
  redis.call('HLEN', cursors)
  redis.call('HLEN', failures)
  redis.call('HLEN', states)
  redis.call('HLEN', errors)
  redis.call('HLEN', reasons)
  redis.call('ZCARD', parked)
  if brings then redis.call('XLEN', messages) end
end

-- A full Redis accepts no messages: it refuses the tickets.
if not brings then even_when_full(tickets) end

local now = clock()
local entries, ids = {unpack(ARGV, 3, n + 2)}, {}
for i = 1, n do ids[i] = sub(entries[i], ID) end
local current = redis.call('HMGET', tickets, unpack(ids))

-- A claim holds if its entry is still in processing_list and under the current
-- ticket. The entry goes in any case: under another ticket it is void.
local fresh = take_ticket(sequence, now)
local removed = remove(processing, entries)
local verdict, held, count = {}, {}, 0
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

-- What only some have.
local FAILS = {failed = true, hindered = true, cursor_reset = true}
local short, park, lines, finds, set_cursors, drop_cursors, set_failures, drop_failures
if first <= last then
  short, park, lines, finds, set_cursors, drop_cursors, set_failures, drop_failures = {}, {}, {}, {}, {}, {}, {}, {}
end
local a = first
while a <= last do
  local op, i = ARGV[a], tonumber(ARGV[a + 1])
  local holds, id, value = verdict[i] == '1', ids[i], ARGV[a + 2]
  a = a + 3
  if op == 'message' then
    if holds then
      local added = redis.pcall('XADD', messages, '*', 'account', id, 'kind', value,
        'id', ARGV[a], 'type', ARGV[a + 1], 'time', ARGV[a + 2], 'data', ARGV[a + 3])
      if type(added) == 'table' and added.err then
        -- The stream accepts nothing more: the claims stay as they were.
        for k = 1, count do redis.call('RPUSH', processing, entries[held[k]]) end
        return added
      end
    end
    a = a + 4
  elseif op == 'found' then
    if holds then finds[#finds + 1], finds[#finds + 2] = id, value end
  elseif op == 'line' then
    if holds then lines[#lines + 1] = {i, value, ARGV[a], ARGV[a + 1], FAILS[value] and redis.call('HGET', errors, id)} end
    a = a + 2
  elseif op == 'nocursor' then
    a = a - 1
    if holds then short[i], drop_cursors[#drop_cursors + 1] = '', id end
  elseif holds and op == 'cursor' then
    if #value > SHORT then
      short[i] = ''
      set_cursors[#set_cursors + 1], set_cursors[#set_cursors + 2] = id, value
    else
      if #current[i] == 32 then drop_cursors[#drop_cursors + 1] = id end
      short[i] = value
    end
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

-- A fresh ticket and one place each. What still travels under the old ticket
-- is void from here on. Stamps are compared as texts: all are as long.
local by_now = stamp(now)
local waits = fresh .. '|' .. by_now .. WAITS
local succeeded = seconds(now)
local rules, marks = {}, {} -- by both
local issued, again, later, after = {}, {}, {}, 0
local healed, checked = erred and {}, struck and {} -- accounts
for k = 1, count do
  local i = held[k]
  local id, behind, at = ids[i], current[i], 15 * i - 14
  local both, due = sub(whats, at, at + 1), sub(whats, at + 2, at + 14)
  local rule, mark = rules[both], marks[both]
  if not rule then
    rule, mark = sub(both, 1, 1), sub(both, 2)
    rules[both], marks[both] = rule, mark
  end
  local lane = LANES[sub(behind, 15, 15)] or 'n'
  local success, newest, older -- the history, in three parts
  if mark == MARK_OK then
    success, newest, older = succeeded, mark, sub(behind, 25, 31)
    if erred then healed[#healed + 1] = id end
  else
    success, newest, older = history_behind(behind), '', ''
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
    -- Due 0: this check was the answer, or there was none and the hint is for the
    -- next. Otherwise the nudge came meanwhile.
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
    local to = rule == NUDGED and 'u' or lane
    local line = again[to]
    if not line then
      line = {}
      again[to] = line
    end
    line[#line + 1] = waits .. id
  else
    after = after + 2
    later[after - 1], later[after] = due, id
  end
  issued[2 * k - 1] = id
  issued[2 * k] = fresh .. lane .. rule .. success .. newest .. older .. (short and short[i] or cursor_behind(behind))
end
redis.call('HSET', tickets, unpack(issued))
if again.n then redis.call('LPUSH', queue, unpack(again.n)) end
if again.u then redis.call('LPUSH', urgent, unpack(again.u)) end
if again.l then redis.call('LPUSH', low, unpack(again.l)) end
if after > 0 then redis.call('ZADD', schedule, unpack(later)) end
if healed and #healed > 0 then redis.call('HDEL', errors, unpack(healed)) end
if checked and #checked > 0 then redis.call('HDEL', strikes, unpack(checked)) end
if not short then return table.concat(verdict) end
if #finds > 0 then tell_finds(KEYS[19], ARGV[#ARGV], finds) end

-- A failure in a row is a line if it is the first, the tenth, the hundredth and so on, or if
-- it is another than the one before: what stands before the colon of its text differs. The
-- first failures and the recoveries of an account that keeps changing between them are
-- routine.
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
  if worth then tell({KEYS[18], KEYS[19]}, ARGV[#ARGV], ids[i], event, count, text, flaps > 2 and event ~= 'parked') end
end
return table.concat(verdict)
