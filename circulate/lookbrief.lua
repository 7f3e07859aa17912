-- lookbrief: some accounts without their places: look with fewer fields.
--
-- KEYS[1]  tickets       HASH  id -> current ticket
-- KEYS[2]  accounts      HASH  id -> record
-- KEYS[3]  parked        ZSET  id -> parked at
-- KEYS[4]  park_reasons  HASH  id -> reason
-- ARGV     ids
--
-- Returns {now, then for each id: {} if it is not registered, {record}, or {record,
-- reason} if it is parked}.

local tickets, accounts, parked, reasons = KEYS[1], KEYS[2], KEYS[3], KEYS[4]

local wrong, there = mistyped(tickets, 'hash', accounts, 'hash', parked, 'zset', reasons, 'hash')
if wrong then return wrong end

-- One command for each key reads all of them: a command for each account would make this
-- slow.
local current = redis.call('HMGET', tickets, unpack(ARGV))
local records = redis.call('HMGET', accounts, unpack(ARGV))
local since = there[parked] and redis.call('ZMSCORE', parked, unpack(ARGV)) or {}
local why = there[parked] and redis.call('HMGET', reasons, unpack(ARGV)) or {}

local answer = {clock()}
for i = 1, #ARGV do
  if not current[i] then
    answer[i + 1] = {}
  elseif since[i] then
    answer[i + 1] = {records[i] or '', why[i] or ''}
  else
    answer[i + 1] = {records[i] or ''}
  end
end
return answer
