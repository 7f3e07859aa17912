-- staleness: how long ago some accounts were last checked with complete success.
--
-- KEYS[1]  tickets  HASH  id -> current ticket and what stands behind it
-- KEYS[2]  parked   ZSET  id -> parked at
-- KEYS[3]  accounts      HASH  id -> the record
-- KEYS[4]  park_reasons  HASH  id -> why it is parked
-- ARGV[1]  where a scan of tickets goes on
-- ARGV[2]  about how many accounts to look at
-- ARGV[3]  from how many seconds on an account is told by itself
-- then the kinds of those; where there are none, none is
--
-- Returns {now, where to go on, parked, the most seconds, the id of who has
-- them or '', those told by themselves, then pairs: bucket, how many}. Bucket 0
-- is less than a second; bucket b begins at 2^((b-1)/8) seconds. Of those told
-- by themselves, parked ones among them, there are five each: id, seconds,
-- parked at or '', why, record. A record that names one of the kinds elsewhere
-- may be among them. Of all others only the histogram leaves Redis.

local tickets, parked, accounts, reasons = KEYS[1], KEYS[2], KEYS[3], KEYS[4]

local now = clock()
local today = math.floor(now / 1000)
local page = redis.call('HSCAN', tickets, ARGV[1], 'COUNT', ARGV[2])
local all = page[2]

-- Many accounts succeeded in the same second: they are counted by its text, and
-- what is costly is done once for all of them.
local count_at, one_of, out = {}, {}, 0
local told, told_from, names = {}, tonumber(ARGV[3]), {}
for k = 4, #ARGV do names[k - 3] = '"kind":"' .. ARGV[k] .. '"' end

-- Tells those of some accounts that are of the kinds.
local function tell(ids, ages, since)
  if #ids == 0 then return end
  for i, record in ipairs(redis.call('HMGET', accounts, unpack(ids))) do
    for k = 1, record and #names or 0 do
      if string.find(record, names[k], 1, true) then
        local at = since[i]
        local why = at and redis.call('HGET', reasons, ids[i]) or ''
        for _, value in ipairs({ids[i], ages[i], at or '', why, record}) do told[#told + 1] = value end
        break
      end
    end
  end
end

local some_parked = redis.call('ZCARD', parked) > 0
for from = 1, #all, 4000 do
  local to = math.min(from + 3999, #all)
  local since = {}
  if some_parked then
    local ids = {}
    for i = from, to, 2 do ids[#ids + 1] = all[i] end
    since = redis.call('ZMSCORE', parked, unpack(ids))
  end
  if #names > 0 then
    local ids, ages, at = {}, {}, {}
    for i = from, to, 2 do
      local succeeded = tonumber(sub(all[i + 1], 17, 24), 16)
      if succeeded and today - succeeded >= told_from then
        ids[#ids + 1], ages[#ids + 1], at[#ids + 1] = all[i], today - succeeded, since[(i - from) / 2 + 1]
      end
    end
    tell(ids, ages, at)
  end
  for i = from, to, 2 do
    if since[(i - from) / 2 + 1] then
      out = out + 1
    else
      local at = sub(all[i + 1], 17, 24)
      count_at[at] = (count_at[at] or 0) + 1
      one_of[at] = all[i]
    end
  end
end

local buckets, most, stalest = {}, -1, ''
for at, n in pairs(count_at) do
  local succeeded = tonumber(at, 16)
  if succeeded then
    local age = math.max(0, today - succeeded)
    if age > most then most, stalest = age, one_of[at] end
    local b = age < 1 and 0 or math.floor(math.log(age) / math.log(2) * 8 + 1e-9) + 1
    buckets[b] = (buckets[b] or 0) + n
  end
end

local answer = {now, page[1], out, most, stalest, told}
for b, n in pairs(buckets) do
  answer[#answer + 1] = b
  answer[#answer + 1] = n
end
return answer
