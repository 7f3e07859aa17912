-- failing: some accounts whose last check failed, or some accounts by their ids.
--
-- KEYS[1]  errors    HASH  id -> when|what went wrong with its last check
-- KEYS[2]  tickets   HASH  id -> current ticket and what follows it
-- KEYS[3]  accounts  HASH  id -> the record
-- KEYS[4]  failures  HASH  id -> failures in a row
-- KEYS[5]  schedule  ZSET  id -> due
-- KEYS[6]  parked    ZSET  id -> parked at
-- ARGV[1]  where a scan of errors continues, or '' if ids follow
-- ARGV[2]  about how many to look at
-- ARGV[3]  the marks of checks that did not fail
-- then ids, instead of the scan
--
-- Returns {now, where to go on, how many were looked at, then six for each account: id,
-- its field of errors or '', the record, failures, due or '', its tickets field up to the
-- cursor}. A scan returns accounts that circulate and whose last check failed. For ids it
-- returns the registered ones.

local errors, tickets, accounts, failures = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local schedule, parked = KEYS[5], KEYS[6]
local cursor, sound = ARGV[1], ARGV[3]

local wrong = mistyped(errors, 'hash', tickets, 'hash', accounts, 'hash', failures, 'hash', schedule, 'zset', parked, 'zset')
if wrong then return wrong end

local ids, texts = {}, {}
if cursor == '' then
  for i = 4, #ARGV do ids[#ids + 1] = ARGV[i] end
else
  local page = redis.call('HSCAN', errors, cursor, 'COUNT', ARGV[2])
  cursor = page[1]
  for i = 1, #page[2], 2 do
    ids[#ids + 1], texts[#texts + 1] = page[2][i], page[2][i + 1]
  end
end

local answer = {clock(), cursor, #ids}
local scanned, last = ARGV[1] ~= '', #answer
for from = 1, #ids, 4000 do
  local to = math.min(from + 3999, #ids)
  local current = redis.call('HMGET', tickets, unpack(ids, from, to))
  local out = scanned and redis.call('EXISTS', parked) == 1 and redis.call('ZMSCORE', parked, unpack(ids, from, to)) or {}
  local chosen, place = {}, {}
  for n = 1, to - from + 1 do
    local value = current[n]
    if value and not out[n] then
      local mark = sub(value, 25, 25)
      if not scanned or mark ~= '' and mark ~= '-' and not string.find(sound, mark, 1, true) then
        chosen[#chosen + 1], place[#place + 1] = ids[from + n - 1], n
      end
    end
  end
  if #chosen > 0 then
    local records = redis.call('HMGET', accounts, unpack(chosen))
    local counts = redis.call('HMGET', failures, unpack(chosen))
    local due = redis.call('ZMSCORE', schedule, unpack(chosen))
    local said = not scanned and redis.call('HMGET', errors, unpack(chosen))
    for n, id in ipairs(chosen) do
      local text = scanned and texts[from + place[n] - 1] or said and said[n] or ''
      answer[last + 1], answer[last + 2], answer[last + 3] = id, text, records[n] or ''
      answer[last + 4], answer[last + 5], answer[last + 6] = counts[n] or '0', due[n] or '', sub(current[place[n]], 15, 32)
      last = last + 6
    end
  end
end
return answer
