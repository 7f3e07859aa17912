-- staleness: how long ago some accounts were last checked with complete success.
--
-- KEYS[1]  tickets  HASH  id -> current ticket and what stands behind it
-- KEYS[2]  parked   ZSET  id -> parked at
-- ARGV[1]  where a scan of tickets goes on
-- ARGV[2]  about how many accounts to look at
--
-- Returns {now, where to go on, parked, the most seconds, the id of who has
-- them or '', then pairs: bucket, how many}. Bucket 0 is less than a second;
-- bucket b begins at 2^((b-1)/8) seconds. Only the histogram leaves Redis.

local tickets, parked = KEYS[1], KEYS[2]

local now = clock()
local today = math.floor(now / 1000)
local page = redis.call('HSCAN', tickets, ARGV[1], 'COUNT', ARGV[2])
local all = page[2]

-- Many accounts succeeded in the same second: they are counted by its text, and
-- what is costly is done once for all of them.
local count_at, one_of, out = {}, {}, 0
local some_parked = redis.call('ZCARD', parked) > 0
for from = 1, #all, 4000 do
  local to = math.min(from + 3999, #all)
  local since = {}
  if some_parked then
    local ids = {}
    for i = from, to, 2 do ids[#ids + 1] = all[i] end
    since = redis.call('ZMSCORE', parked, unpack(ids))
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

local answer = {now, page[1], out, most, stalest}
for b, n in pairs(buckets) do
  answer[#answer + 1] = b
  answer[#answer + 1] = n
end
return answer
