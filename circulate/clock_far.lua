-- far: look at some scheduled accounts, and return those that are due after some time.
--
-- KEYS[1]  schedule  ZSET  id -> due
-- KEYS[2]  tickets   HASH  id -> current ticket and what follows it
-- KEYS[3]  accounts  HASH  id -> record
-- KEYS[4]  states    HASH  id -> what its cadence keeps
-- ARGV[1], ARGV[2]  where a scan of the schedule goes on, and about how many to look at
-- ARGV[3]  in how many ms a returned account is due at the earliest
--
-- Returns {now, where to go on, then five for each: id, due, rule, record or '', state
-- or ''}.

local schedule, tickets, accounts, states = KEYS[1], KEYS[2], KEYS[3], KEYS[4]

local now = clock()
local page = redis.call('ZSCAN', schedule, ARGV[1], 'COUNT', ARGV[2])
local all, after = page[2], now + tonumber(ARGV[3])
local answer, n, ids, due = {now, page[1]}, 2, {}, {}

local function tell()
  if #ids == 0 then return end
  local current = redis.call('HMGET', tickets, unpack(ids))
  local records = redis.call('HMGET', accounts, unpack(ids))
  local kept = redis.call('HMGET', states, unpack(ids))
  for i, id in ipairs(ids) do
    if current[i] then
      answer[n + 1], answer[n + 2], answer[n + 3] = id, due[i], rule_behind(current[i])
      answer[n + 4], answer[n + 5] = records[i] or '', kept[i] or ''
      n = n + 5
    end
  end
  ids, due = {}, {}
end

for i = 1, #all, 2 do
  if tonumber(all[i + 1]) > after then
    ids[#ids + 1], due[#due + 1] = all[i], all[i + 1]
    if #ids == 1000 then tell() end
  end
end
tell()
return answer
