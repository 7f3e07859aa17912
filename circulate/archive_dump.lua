-- dump: some accounts, with all data that a backup has of them.
--
-- KEYS[1]  tickets   HASH  id -> current ticket and what follows it
-- KEYS[2]  schedule  ZSET  id -> due
-- KEYS[3]  parked    ZSET  id -> parked at
-- KEYS[4…] accounts, and the other HASHes that have a field for each account
-- then two for each id: known:ID and known_before:ID  SETs
-- ARGV     ids
--
-- Returns for each id: {} if it is not registered, otherwise a letter (s scheduled, p
-- parked, w waiting or claimed), due or parked at or '', what follows its ticket, and its
-- fields, '' where there is none; then, if it remembers messages, what known_of returns.

local tickets, schedule, parked = KEYS[1], KEYS[2], KEYS[3]
local FIELDS = 4
local last = #KEYS - 2 * #ARGV

local wrong, there = mistyped(tickets, 'hash', schedule, 'zset', parked, 'zset')
for k = FIELDS, last do wrong = wrong or mistyped(KEYS[k], 'hash') end
if wrong then return wrong end

local current = redis.call('HMGET', tickets, unpack(ARGV))
local due = there[schedule] and redis.call('ZMSCORE', schedule, unpack(ARGV)) or {}
local out = there[parked] and redis.call('ZMSCORE', parked, unpack(ARGV)) or {}
local fields = {}
for k = FIELDS, last do fields[k] = redis.call('HMGET', KEYS[k], unpack(ARGV)) end

local answer = {}
for i = 1, #ARGV do
  local one = {}
  if current[i] then
    local place, at = 'w', ''
    if out[i] then
      place, at = 'p', format('%.0f', tonumber(out[i]))
    elseif due[i] then
      place, at = 's', format('%.0f', tonumber(due[i]))
    end
    one[1], one[2], one[3] = place, at, sub(current[i], 15)
    for k = FIELDS, last do one[k] = fields[k][i] or '' end
    local known = known_of(KEYS[last + 2 * i - 1], KEYS[last + 2 * i])
    if known then
      for k = 1, 4 do one[last + k] = known[k] end
    end
  end
  answer[i] = one
end
return answer
