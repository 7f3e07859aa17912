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
local pairs_of = page[2]
local ids, ages = {}, {}
for i = 1, #pairs_of, 2 do
  local succeeded = tonumber(sub(pairs_of[i + 1], 17, 24), 16)
  if succeeded then
    ids[#ids + 1] = pairs_of[i]
    ages[#ids] = math.max(0, today - succeeded)
  end
end

-- One question for all, in pieces that fit Lua's stack.
local buckets, out, most, stalest = {}, 0, -1, ''
for from = 1, #ids, 4000 do
  local to = math.min(from + 3999, #ids)
  local since = redis.call('ZMSCORE', parked, unpack(ids, from, to))
  for i = from, to do
    if since[i - from + 1] then
      out = out + 1
    else
      local age = ages[i]
      if age > most then most, stalest = age, ids[i] end
      local b = age < 1 and 0 or math.floor(math.log(age) / math.log(2) * 8 + 1e-9) + 1
      buckets[b] = (buckets[b] or 0) + 1
    end
  end
end

local answer = {now, page[1], out, most, stalest}
for b, n in pairs(buckets) do
  answer[#answer + 1] = b
  answer[#answer + 1] = n
end
return answer
