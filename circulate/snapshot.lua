-- snapshot: some accounts with everything that moves with them to another ring.
--
-- KEYS[1]  tickets       HASH  id -> current ticket and what follows it
-- KEYS[2]  accounts      HASH  id -> record
-- KEYS[3]  cursors       HASH  id -> long cursor
-- KEYS[4]  states        HASH  id -> what its cadence keeps
-- KEYS[5]  failures      HASH  id -> failures in a row
-- KEYS[6]  parked        ZSET  id -> parked at
-- KEYS[7]  park_reasons  HASH  id -> reason
-- ARGV     ids
--
-- Returns for each id: {} if it is not registered, otherwise {record, cursor or '',
-- state, failures, parked at or '', reason}.

local tickets, accounts, cursors, states = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local failures, parked, reasons = KEYS[5], KEYS[6], KEYS[7]

local wrong, there = mistyped(tickets, 'hash', accounts, 'hash', cursors, 'hash', states, 'hash', failures, 'hash',
  parked, 'zset', reasons, 'hash')
if wrong then return wrong end

local function all(key) return there[key] and redis.call('HMGET', key, unpack(ARGV)) or {} end

local current, records, long, kept, failed, why = all(tickets), all(accounts), all(cursors), all(states), all(failures), all(reasons)
local since = there[parked] and redis.call('ZMSCORE', parked, unpack(ARGV)) or {}

local answer = {}
for i = 1, #ARGV do
  if not current[i] then
    answer[i] = {}
  else
    answer[i] = {records[i] or '', long[i] or cursor_behind(current[i]), kept[i] or '', failed[i] or '0',
      since[i] or '', since[i] and why[i] or ''}
  end
end
return answer
