-- register: accounts come into circulation, or their records change.
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
-- KEYS[13] leaving       STRING  there: the shard's accounts go to other shards
-- KEYS[14] ticket_mark   STRING
-- ARGV[1]  1 to change accounts that exist, 0 to leave them alone
-- ARGV[2]  how a reason begins that an update does not lift
-- ARGV[3], ARGV[4]  the channel to wake replicas on, and the shard
-- then, five for each account: id, record, first due (ms; what is past means
-- now), 1 to forget the cursor if the record changes, its lane
--
-- Returns a text of one letter each: c created, u updated, s the same as it
-- was, e exists and was left alone, m belongs to another shard by now.

local tickets, sequence, accounts, schedule, parked = KEYS[1], {KEYS[2], KEYS[14]}, KEYS[3], KEYS[4], KEYS[5]
local reasons, failures, strikes, cursors, changes = KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local states, errors = KEYS[11], KEYS[12]
local change_existing, stays_parked = ARGV[1] == '1', ARGV[2]

local wrong, there = mistyped(tickets, 'hash', KEYS[2], 'string', accounts, 'hash', schedule, 'zset', parked, 'zset',
  reasons, 'hash', failures, 'hash', strikes, 'hash', cursors, 'hash', changes, 'zset', states, 'hash', errors, 'hash',
  KEYS[13], 'string')
if wrong then return wrong end

local now = clock()
local letters, changed = {}, false
local was_first, first = first_due(schedule), math.huge
for a = 5, #ARGV, 5 do
  local id, record, due, forget = ARGV[a], ARGV[a + 1], math.max(now, tonumber(ARGV[a + 2])), ARGV[a + 3] == '1'
  local letter = there[KEYS[13]] and 'm' or 'c'
  local current = redis.call('HGET', tickets, id)
  if current then
    if not change_existing then
      letter = 'e'
    elseif redis.call('HGET', accounts, id) == record then
      letter = 's'
    else
      letter = 'u'
    end
  end
  if letter == 'c' or letter == 'u' then
    local fresh = take_ticket(sequence, now)
    local reason = letter == 'u' and redis.call('HGET', reasons, id)
    local stays = reason and sub(reason, 1, #stays_parked) == stays_parked
    -- Scheduled before the fresh ticket makes void what travels: twice in a place
    -- is put right by the next claim, in none it is lost.
    if not stays then redis.call('ZADD', schedule, due, id) end
    redis.call('HSET', accounts, id, record)
    local keep = current and not forget and cursor_behind(current) or ''
    local history = current and history_behind(current) or seconds(now) .. NO_MARKS
    redis.call('HSET', tickets, id, fresh .. ARGV[a + 4] .. REGISTERED .. history .. keep)
    if letter == 'u' then
      if forget then redis.call('HDEL', cursors, id) end
      -- What the cadence kept was of the old record. That messages are passed over
      -- (WithSkip of package accounts) was asked for, and holds.
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
      end
    end
  end
  letters[#letters + 1] = letter
end
if changed then redis.call('ZREMRANGEBYRANK', changes, 0, -1025) end
if first < was_first then wake(ARGV[3], ARGV[4], first) end
return table.concat(letters)
