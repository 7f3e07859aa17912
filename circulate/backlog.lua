-- backlog: some accounts of a shard, when they are due and how long their intervals are.
--
-- KEYS[1]  tickets          HASH  id -> current ticket and what follows it
-- KEYS[2]  schedule         ZSET  id -> due
-- KEYS[3]  message_queue    LIST
-- KEYS[4]  message_queue:urgent  LIST
-- KEYS[5]  message_queue:low     LIST
-- KEYS[6]  processing_list  LIST
-- ARGV[1]  how many scheduled accounts to look at, and of each list, at most
--
-- Returns now, then for the schedule and for each list: how many there are, and the
-- accounts, each as the time, in ms, that is due or an entry's stamp, and 10 letters of its
-- tickets field: when a check last succeeded, how the last one went, and the rule. Scheduled
-- accounts are taken by fours at even distances in the order of due times.

local tickets, schedule = KEYS[1], KEYS[2]
local most = tonumber(ARGV[1])

local function about(ids, times)
  local found = {}
  if #ids == 0 then return found end
  for i, at in ipairs(redis.call('HMGET', tickets, unpack(ids))) do
    if at then
      found[#found + 1] = times[i]
      found[#found + 1] = sub(at, 17, 25) .. rule_behind(at)
    end
  end
  return found
end

local many = redis.call('ZCARD', schedule)
local ids, times = {}, {}
local function take(page)
  for i = 1, #page, 2 do ids[#ids + 1], times[#times + 1] = page[i], format('%.0f', tonumber(page[i + 1])) end
end
if many <= most then
  take(redis.call('ZRANGE', schedule, 0, -1, 'WITHSCORES'))
else
  local parts = math.ceil(most / 4)
  for i = 0, parts - 1 do
    local rank = math.floor((i + 0.5) * (many - 4) / parts)
    take(redis.call('ZRANGE', schedule, rank, rank + 3, 'WITHSCORES'))
  end
end
local reply = {clock(), many, about(ids, times)}
for k = 3, 6 do
  ids, times = {}, {}
  for _, entry in ipairs(redis.call('LRANGE', KEYS[k], -most, -1)) do
    if well_formed(entry) then ids[#ids + 1], times[#times + 1] = sub(entry, ID), sub(entry, 16, 28) end
  end
  reply[#reply + 1] = redis.call('LLEN', KEYS[k])
  reply[#reply + 1] = about(ids, times)
end
return reply
