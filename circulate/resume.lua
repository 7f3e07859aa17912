-- resume: put parked accounts back into circulation, with their failures cleared or on
-- probation.
--
-- KEYS[1]  tickets       HASH  id -> current ticket and what follows it
-- KEYS[2]  ticket_seq    STRING
-- KEYS[3]  schedule      ZSET  id -> due
-- KEYS[4]  parked        ZSET  id -> parked at
-- KEYS[5]  park_reasons  HASH  id -> reason
-- KEYS[6]  failures      HASH  id -> failures in a row
-- KEYS[7]  strikes       HASH  id -> requeues since the last return
-- KEYS[8]  states        HASH  id -> what its cadence keeps
-- KEYS[9]  cursors       HASH  id -> long cursor
-- KEYS[10] ticket_mark   STRING
-- KEYS[11], KEYS[12]  timeline  STREAMs
-- ARGV[1], ARGV[2]  the channel to wake replicas on, and the shard
-- ARGV[3]  the rule that brings them back
-- ARGV[4]  1 to keep their failures: the next failure parks them again
-- ARGV[5]  how many lines timelines keep, as tell takes it
-- then five for each account: id, due (ms; what is past means now), the reason
-- for which it must be parked ('' = any), 1 to forget its cursor, what its cadence keeps
-- from now on if failures are cleared
--
-- Returns a text of one letter each: r resumed, c circulates and was not changed, o is
-- parked for another reason and was not changed, n not registered.

local tickets, sequence, schedule, parked = KEYS[1], {KEYS[2], KEYS[10]}, KEYS[3], KEYS[4]
local reasons, failures, strikes, states, cursors = KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9]

local wrong = mistyped(tickets, 'hash', KEYS[2], 'string', schedule, 'zset', parked, 'zset', reasons, 'hash',
  failures, 'hash', strikes, 'hash', states, 'hash', cursors, 'hash')
if wrong then return wrong end

even_when_full(tickets)
local rule, keep = ARGV[3], ARGV[4] == '1'
local now, letters = clock(), {}
local was_first, first = first_due(schedule), math.huge
for a = 6, #ARGV, 5 do
  local id, reason, forget, state = ARGV[a], ARGV[a + 2], ARGV[a + 3] == '1', ARGV[a + 4]
  local current = redis.call('HGET', tickets, id)
  if not current then
    letters[#letters + 1] = 'n'
  elseif not redis.call('ZSCORE', parked, id) then
    letters[#letters + 1] = 'c'
  elseif reason ~= '' and redis.call('HGET', reasons, id) ~= reason then
    letters[#letters + 1] = 'o'
  else
    local due = math.max(now, tonumber(ARGV[a + 1]))
    redis.call('ZADD', schedule, due, id)
    renew(tickets, sequence, id, forget and sub(current, 1, 32) or current, now, rule)
    if forget then redis.call('HDEL', cursors, id) end
    first = math.min(first, due)
    redis.call('ZREM', parked, id)
    redis.call('HDEL', reasons, id)
    if not keep then
      redis.call('HDEL', failures, id)
      redis.call('HDEL', strikes, id)
      if state ~= '' then redis.call('HSET', states, id, state) else redis.call('HDEL', states, id) end
    end
    letters[#letters + 1] = 'r'
    local from = forget and 'backfill' or not keep and string.find(state, '^s%d') and 'now' or ''
    tell({KEYS[11], KEYS[12]}, ARGV[5], id, keep and 'probed' or 'resumed', 0, from)
  end
end
if first < was_first then wake(ARGV[1], ARGV[2], first) end
return table.concat(letters)
