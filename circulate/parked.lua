-- parked: a page of a shard's parked accounts, the longest parked first; or of its
-- scheduled accounts, the soonest due first.
--
-- KEYS[1]  parked        ZSET  id -> parked at; or schedule  ZSET  id -> due
-- KEYS[2]  park_reasons  HASH  id -> reason
-- ARGV[1], ARGV[2]  the time of the last account of the page before (ms), and its id;
--          0 and '' for the first page
-- ARGV[3]  how many, at most
--
-- Returns {now, then three for each account: id, since, reason}.

local parked, reasons = KEYS[1], KEYS[2]
local since, after, count = ARGV[1], ARGV[2], tonumber(ARGV[3])

local wrong = mistyped(parked, 'zset', reasons, 'hash')
if wrong then return wrong end

-- Lua's own < depends on the server's locale; a ZSET is ordered by bytes.
local function behind(a, b)
  for i = 1, math.min(#a, #b) do
    local x, y = byte(a, i), byte(b, i)
    if x ~= y then return x > y end
  end
  return #a > #b
end

-- The last account of the previous page may no longer be parked, and many may have been
-- parked at the same moment. So binary search finds the place after it.
local from = redis.call('ZCOUNT', parked, '-inf', '(' .. since)
local to = from + redis.call('ZCOUNT', parked, since, since)
while from < to do
  local middle = math.floor((from + to) / 2)
  if behind(redis.call('ZRANGE', parked, middle, middle)[1], after) then
    to = middle
  else
    from = middle + 1
  end
end

local answer, ids = {clock()}, {}
local page = redis.call('ZRANGE', parked, from, from + count - 1, 'WITHSCORES')
if #page == 0 then return answer end
for i = 1, #page, 2 do ids[#ids + 1] = page[i] end
for i, reason in ipairs(redis.call('HMGET', reasons, unpack(ids))) do
  answer[3 * i - 1], answer[3 * i], answer[3 * i + 1] = ids[i], page[2 * i], reason or ''
end
return answer
