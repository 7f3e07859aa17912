-- register: register accounts, or change their records.
--
-- KEYS[1]  tickets       HASH  id -> current ticket, short cursor
-- KEYS[2]  ticket_seq    STRING
-- KEYS[3]  accounts      HASH  id -> record
-- KEYS[4]  schedule      ZSET  id -> due
-- KEYS[5]  parked        ZSET  id -> parked at
-- KEYS[6]  park_reasons  HASH  id -> reason
-- KEYS[7]  failures      HASH  id -> failures in a row
-- KEYS[8]  strikes       HASH  id -> requeues since the last return
-- KEYS[9]  cursors       HASH  id -> long cursor
-- KEYS[10] changes       ZSET  id -> when its record changed, unix µs
-- KEYS[11] states        HASH  id -> what its cadence keeps
-- KEYS[12] errors        HASH  id -> when|what went wrong with its last check
-- KEYS[13] leaving       STRING  if it exists, the shard's accounts go to other shards
-- KEYS[14] ticket_mark   STRING
-- KEYS[15] kinds         HASH  id -> kind of an account that some replica cannot check
-- KEYS[16], KEYS[17]  timeline  STREAMs
-- ARGV[1]  1 to change accounts that exist, otherwise 0
-- ARGV[2]  the beginning of a reason that an update does not lift
-- ARGV[3], ARGV[4]  the channel to wake replicas on, and the shard
-- ARGV[5]  how many lines timelines keep, as tell takes it
-- ARGV[6]  n, how many accounts
-- then, five for each account: id, record, first due (ms; what is past means
-- now), 1 to forget the cursor if the record changes, its lane
-- then, for some of them, with i the place among the n:
--   is i RECORD         change it only if this is its record now
--   new i               only if it does not exist
--   moved i ADDRESS     the record changes because the third party moved there
--   state i VALUE · cursor i VALUE · failures i N · park i REASON SINCE
--                       what a new account begins with
--
-- Returns a text of one letter each: c created, u updated, s unchanged, e exists and was
-- not changed, x does not meet the condition and was not changed, m now belongs to
-- another shard.

local tickets, sequence, accounts, schedule, parked = KEYS[1], {KEYS[2], KEYS[14]}, KEYS[3], KEYS[4], KEYS[5]
local reasons, failures, strikes, cursors, changes = KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local states, errors = KEYS[11], KEYS[12]
local change_existing, stays_parked = ARGV[1] == '1', ARGV[2]

local wrong, there = mistyped(tickets, 'hash', KEYS[2], 'string', accounts, 'hash', schedule, 'zset', parked, 'zset',
  reasons, 'hash', failures, 'hash', strikes, 'hash', cursors, 'hash', changes, 'zset', states, 'hash', errors, 'hash',
  KEYS[13], 'string', KEYS[15], 'hash')
if wrong then return wrong end

local n = tonumber(ARGV[6])
local must_be, must_be_new, moved, begins = {}, {}, {}, {}
local a = 5 * n + 7
while a <= #ARGV do
  local op, i = ARGV[a], tonumber(ARGV[a + 1])
  if op == 'new' then
    must_be_new[i] = true
    a = a + 2
  elseif op == 'is' then
    must_be[i] = ARGV[a + 2]
    a = a + 3
  elseif op == 'moved' then
    moved[i] = ARGV[a + 2]
    a = a + 3
  else
    begins[i] = begins[i] or {}
    begins[i][op] = ARGV[a + 2]
    a = a + 3
    if op == 'park' then
      begins[i].since = ARGV[a]
      a = a + 1
    end
  end
end

local now = clock()
local letters, changed = {}, false
local was_first, first = first_due(schedule), math.huge
for i = 1, n do
  local a = 5 * i + 2
  local id, record, due, forget = ARGV[a], ARGV[a + 1], math.max(now, tonumber(ARGV[a + 2])), ARGV[a + 3] == '1'
  local letter = there[KEYS[13]] and 'm' or 'c'
  local current = redis.call('HGET', tickets, id)
  if current then
    local before = redis.call('HGET', accounts, id) or ''
    if not change_existing then
      letter = 'e'
    elseif before == record then
      letter = 's' -- a repeated step finds what it wrote, whatever it demanded
    elseif must_be_new[i] or must_be[i] and must_be[i] ~= before then
      letter = 'x'
    else
      letter = 'u'
    end
  elseif letter == 'c' and must_be[i] then
    letter = 'x'
  end
  if letter == 'c' or letter == 'u' then
    local fresh = take_ticket(sequence, now)
    local reason = letter == 'u' and redis.call('HGET', reasons, id)
    local begin = letter == 'c' and begins[i] or {}
    local stays = begin.park or reason and sub(reason, 1, #stays_parked) == stays_parked
    -- It is scheduled before the fresh ticket makes travelling entries void. An account
    -- in two places is repaired by the next claim; an account in none would be lost.
    if not stays then redis.call('ZADD', schedule, due, id) end
    redis.call('HSET', accounts, id, record)
    local keep = current and not forget and cursor_behind(current) or begin.cursor or ''
    if #keep > SHORT then
      redis.call('HSET', cursors, id, keep)
      keep = ''
    end
    if begin.state then redis.call('HSET', states, id, begin.state) end
    if begin.failures then redis.call('HSET', failures, id, begin.failures) end
    if begin.park then
      redis.call('ZADD', parked, math.min(now, tonumber(begin.since)), id)
      redis.call('HSET', reasons, id, begin.park)
    end
    local history = current and history_behind(current) or seconds(now) .. NO_MARKS
    redis.call('HSET', tickets, id, fresh .. ARGV[a + 4] .. REGISTERED .. history .. keep)
    if there[KEYS[15]] then redis.call('HDEL', KEYS[15], id) end -- the record may name another kind
    if letter == 'u' then
      if forget then redis.call('HDEL', cursors, id) end
      -- The cadence's state belongs to the old record. Only the request to pass over
      -- messages (SkipBefore of accounts.Memory) stays.
      local kept = redis.call('HGET', states, id)
      local skip = kept and string.match(kept, '^s%d+')
      if skip then redis.call('HSET', states, id, skip) elseif kept then redis.call('HDEL', states, id) end
      redis.call('ZADD', changes, change_stamp(changes), id)
      changed = true
    end
    if not stays then
      first = math.min(first, due)
      if reason then
        redis.call('ZREM', parked, id)
        redis.call('HDEL', reasons, id)
        redis.call('HDEL', failures, id)
        redis.call('HDEL', strikes, id)
        redis.call('HDEL', errors, id)
        tell({KEYS[16], KEYS[17]}, ARGV[5], id, 'resumed', 0, 'changed')
      end
    end
    if letter == 'u' and moved[i] then tell({KEYS[16], KEYS[17]}, ARGV[5], id, 'moved', 0, moved[i]) end
  end
  letters[#letters + 1] = letter
end
if changed then redis.call('ZREMRANGEBYRANK', changes, 0, -1025) end
if first < was_first then wake(ARGV[3], ARGV[4], first) end
return table.concat(letters)
