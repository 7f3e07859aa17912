-- audit: look at some accounts of a shard, and write nothing.
--
-- KEYS[1]  tickets          HASH  id -> current ticket and what follows it
-- KEYS[2]  schedule         ZSET  id -> due
-- KEYS[3]  parked           ZSET  id -> parked at
-- KEYS[4]  accounts         HASH  id -> record
-- KEYS[5]  message_queue:by_kind  ZSET
-- KEYS[6…] processing_list and the lanes of message_queue, LISTs
-- ARGV[1]  what to look at:
--   tickets CURSOR COUNT RECORDS   a page of the registered accounts. Returns {next, how
--                          many, {id, ticket of each in no ZSET}, {id, ticket of each
--                          in both}, {ids without a record}, RECORDS}. RECORDS is all,
--                          or some if records are missing; '' has them counted
--   2, 3 or 4 CURSOR COUNT a page of that key. Returns {next, {ids that are not
--                          registered, each with its score or record}}
--   judge LIMIT, then pairs: id, ticket. Returns {1 if the lists have at most
--                          LIMIT entries and were read, otherwise 0, then for
--                          each in how many places it is under that ticket, -1
--                          if another is current}

local tickets, schedule, parked, accounts = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local what = ARGV[1]

if what == 'tickets' then
  local page = redis.call('HSCAN', tickets, ARGV[2], 'COUNT', ARGV[3])
  local all = page[2]
  local travelling, both, bare = {}, {}, {}
  -- Records are looked up if their number says that some are missing.
  local records = ARGV[4]
  if records == '' then records = redis.call('HLEN', accounts) == redis.call('HLEN', tickets) and 'all' or 'some' end
  for from = 1, #all, 2000 do
    local ids, current = {}, {}
    for i = from, math.min(from + 1999, #all), 2 do
      ids[#ids + 1], current[#current + 1] = all[i], ticket_of(all[i + 1])
    end
    local due = redis.call('ZMSCORE', schedule, unpack(ids))
    local since = redis.call('ZMSCORE', parked, unpack(ids))
    for i, id in ipairs(ids) do
      local into = not due[i] and not since[i] and travelling or due[i] and since[i] and both
      if into then into[#into + 1], into[#into + 2] = id, current[i] end
      if records == 'some' and redis.call('HEXISTS', accounts, id) == 0 then bare[#bare + 1] = id end
    end
  end
  return {page[1], #all / 2, travelling, both, bare, records}
end

if what == 'judge' then
  local lists, long = {}, 0
  for k = 6, #KEYS do long = long + redis.call('LLEN', KEYS[k]) end
  long = long + redis.call('ZCARD', KEYS[5])
  local short = long <= tonumber(ARGV[2])
  if short then
    for k = 5, #KEYS do
      -- Copies of one entry in one list count once: claiming one voids the other.
      local here = {}
      for _, entry in ipairs(redis.call(k == 5 and 'ZRANGE' or 'LRANGE', KEYS[k], 0, -1)) do
        if k == 5 then entry = entry_of(entry) end
        if well_formed(entry) and not here[entry] then
          here[entry] = true
          local name = ticket_of(entry) .. sub(entry, ID)
          lists[name] = (lists[name] or 0) + 1
        end
      end
    end
  end
  local answer = {short and 1 or 0}
  for a = 3, #ARGV, 2 do
    local id, ticket = ARGV[a], ARGV[a + 1]
    local current = redis.call('HGET', tickets, id)
    local n = -1
    if current and ticket_of(current) == ticket then
      n = (redis.call('ZSCORE', schedule, id) and 1 or 0) + (redis.call('ZSCORE', parked, id) and 1 or 0)
        + (lists[ticket .. id] or 0)
    end
    answer[#answer + 1] = n
  end
  return answer
end

local key = KEYS[tonumber(what)]
local page = redis.call(what == '4' and 'HSCAN' or 'ZSCAN', key, ARGV[2], 'COUNT', ARGV[3])
local all, strange = page[2], {}
for from = 1, #all, 2000 do
  local ids = {}
  for i = from, math.min(from + 1999, #all), 2 do ids[#ids + 1] = all[i] end
  for i, current in ipairs(redis.call('HMGET', tickets, unpack(ids))) do
    if not current then strange[#strange + 1], strange[#strange + 2] = ids[i], all[from + 2 * i - 1] end
  end
end
return {page[1], strange}
