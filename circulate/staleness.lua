-- staleness: how long ago some accounts were last checked with complete success.
--
-- KEYS[1]  tickets  HASH  id -> current ticket and what follows it
-- KEYS[2]  parked   ZSET  id -> parked at
-- KEYS[3]  accounts      HASH  id -> the record
-- KEYS[4]  park_reasons  HASH  id -> why it is parked
-- ARGV[1]  where a scan of tickets continues
-- ARGV[2]  about how many accounts to look at
-- ARGV[3]  from how many seconds on an account is returned by itself
-- ARGV[4]  from how many seconds on an account is reported in the group of its kind and
--          cadence; '' = no groups, not even of accounts whose checks fail
-- ARGV[5]  the marks of checks that did not fail
-- ARGV[6]  the marks of the last checks of accounts that are in no group
-- then the kinds of the accounts that are returned by themselves; without kinds none is
--
-- Returns {now, where to go on, parked, the most seconds, the id of the account that has
-- them or '', the accounts returned by themselves, the groups, the bytes of the records
-- that were read, then pairs: bucket, how many}. Bucket 0 is less than a second; bucket b
-- begins at 2^((b-1)/8) seconds. An account returned by itself, which may be parked, has
-- five values: id, seconds, parked at or '', why, record. Its record may name one of the
-- kinds in another place.
--
-- Accounts in groups are not parked, and are as stale as ARGV[4], or their last check
-- failed. A group has four values: kind, cadence as the record has it, the id of the
-- stalest account, and an array of pairs: 4 * bucket + 1 if the last check failed + 2 if
-- none ever succeeded, how many. A record that is missing or unreadable has the kind ''.
--
-- Other accounts leave Redis only in the histogram.

local tickets, parked, accounts, reasons = KEYS[1], KEYS[2], KEYS[3], KEYS[4]

local now = clock()
local today = math.floor(now / 1000)
local page = redis.call('HSCAN', tickets, ARGV[1], 'COUNT', ARGV[2])
local all = page[2]

-- Many accounts succeeded in the same second: they are counted by its text, and the
-- costly part is done once for all of them.
local count_at, one_of, out = {}, {}, 0
local age_at, bucket_at = {}, {}
local told, told_from, names = {}, tonumber(ARGV[3]), {}
local groups, slow_from, sound, excused = {}, tonumber(ARGV[4]), ARGV[5], ARGV[6]
local read = 0
for k = 7, #ARGV do names[k - 6] = '"kind":"' .. ARGV[k] .. '"' end

-- Returns how many seconds ago the time after a ticket was, or nil if it is no time.
local function age_of(at)
  local age = age_at[at]
  if age == nil then
    local succeeded = tonumber(at, 16)
    age = succeeded and today - succeeded or false
    age_at[at] = age
  end
  return age or nil
end

local function bucket_of(at)
  local b = bucket_at[at]
  if not b then
    local age = math.max(0, age_of(at))
    b = age < 1 and 0 or math.floor(math.log(age) / math.log(2) * 8 + 1e-9) + 1
    bucket_at[at] = b
  end
  return b
end

-- Returns the text after the first occurrence of a name in a record, and where it ends,
-- or nil. Neither a kind nor a cadence has a backslash.
local function text_behind(record, name)
  local _, before = string.find(record, name, 1, true)
  if not before then return nil end
  local behind = string.find(record, '"', before + 1, true)
  if not behind then return nil end
  return sub(record, before + 1, behind - 1), behind
end

-- Returns the kind and the cadence that a record names, '' if it names none. The id,
-- which comes before the kind, cannot look like one, because its quotes are escaped.
local function rhythm_of(record)
  local kind = text_behind(record, '"kind":"') or ''
  local cadence, behind = text_behind(record, '"cadence":"')
  if not behind then return kind, '' end
  -- At the end of the record it is the record's own; elsewhere it may be its config's.
  if behind == #record - 1 then return kind, cadence end
  local ok, fields = pcall(cjson.decode, record)
  if not ok or type(fields) ~= 'table' or type(fields.cadence) ~= 'string' then return kind, '' end
  return kind, fields.cadence
end

-- Counts an account in the group of its kind and cadence.
local function count(id, at, class, record)
  local kind, cadence = rhythm_of(record)
  local name = kind .. '|' .. cadence
  local g = groups[name]
  if not g then
    g = {kind = kind, cadence = cadence, most = -math.huge, counts = {}}
    groups[name] = g
  end
  local age, key = age_of(at), 4 * bucket_of(at) + class
  if age > g.most then g.most, g.id = age, id end
  g.counts[key] = (g.counts[key] or 0) + 1
end

-- Returns an account by itself if it is of one of the kinds.
local function tell(id, age, since, record)
  for k = 1, #names do
    if string.find(record, names[k], 1, true) then
      local why = since and redis.call('HGET', reasons, id) or ''
      for _, value in ipairs({id, age, since or '', why, record}) do told[#told + 1] = value end
      return
    end
  end
end

-- Reports whether an account is in no group because of how its last check ended.
local function is_excused(value)
  local last = sub(value, 25, 25)
  return last ~= '' and string.find(excused, last, 1, true)
end

-- Returns how an account's checks went: 1 if the last failed, plus 2 if none ever
-- succeeded.
local function class_of(value)
  local last = sub(value, 25, 25)
  if last == '' or last == '-' then return 0 end
  local class = string.find(sound, last, 1, true) and 0 or 1
  if last ~= MARK_OK and sub(value, 32, 32) == '-' and not string.find(sub(value, 25, 31), MARK_OK, 1, true) then class = class + 2 end
  return class
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
  local ids, place, classes = {}, {}, {}
  for i = from, to, 2 do
    local value = all[i + 1]
    local at, away = sub(value, 17, 24), since[(i - from) / 2 + 1]
    local age, class = age_of(at), 0
    local alone = age and #names > 0 and age >= told_from
    local together = false
    if age and slow_from and not away and not is_excused(value) then
      class = class_of(value)
      together = class > 0 or age >= slow_from
    end
    if alone or together then
      local n = #ids + 1
      ids[n], place[n], classes[n] = all[i], i, together and class
    end
    if away then
      out = out + 1
    else
      count_at[at] = (count_at[at] or 0) + 1
      one_of[at] = all[i]
    end
  end
  if #ids > 0 then
    for n, record in ipairs(redis.call('HMGET', accounts, unpack(ids))) do
      record = record or ''
      read = read + #record
      local at = sub(all[place[n] + 1], 17, 24)
      if classes[n] then count(ids[n], at, classes[n], record) end
      if #names > 0 and age_of(at) >= told_from then tell(ids[n], age_of(at), since[(place[n] - from) / 2 + 1], record) end
    end
  end
end

local buckets, most, stalest = {}, -1, ''
for at, n in pairs(count_at) do
  local age = age_of(at)
  if age then
    age = math.max(0, age)
    if age > most then most, stalest = age, one_of[at] end
    local b = bucket_of(at)
    buckets[b] = (buckets[b] or 0) + n
  end
end

local slow = {}
for _, g in pairs(groups) do
  local counts = {}
  for key, n in pairs(g.counts) do
    counts[#counts + 1] = key
    counts[#counts + 1] = n
  end
  for _, value in ipairs({g.kind, g.cadence, g.id, counts}) do slow[#slow + 1] = value end
end
local answer = {now, page[1], out, most, stalest, told, slow, read}
for b, n in pairs(buckets) do
  answer[#answer + 1] = b
  answer[#answer + 1] = n
end
return answer
