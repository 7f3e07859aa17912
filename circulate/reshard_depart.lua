-- depart: take accounts out of a shard, to bring them to others. They are on their way
-- until settle says that they have arrived.
--
-- KEYS[1]   tickets       HASH  id -> current ticket and what follows it
-- KEYS[2]   ticket_seq    STRING
-- KEYS[3]   schedule      ZSET  id -> due
-- KEYS[4]   parked        ZSET  id -> parked at
-- KEYS[5]   departures    HASH  generation.target:number -> accounts
-- KEYS[6]   leaving       STRING
-- KEYS[7…9] the lanes of message_queue  LISTs
-- KEYS[10]  ticket_mark   STRING
-- KEYS[11…18] the outbox: see sends.lua
-- KEYS[19…] accounts, and the other HASHes that have a field for each account, in
--           the order that arrive has them
-- then      known_away    HASH  generation.target:number -> what these accounts remember
-- then two for each account: known:ID and known_before:ID  SETs
-- ARGV[1]   after how many bytes no more are taken
-- then four for each account: its id, the name of its target, and, if it was seen
-- waiting, its lane, 1 to 3, and its entry there, otherwise 0 and ''
--
-- A claimed account stays and departs once it is returned, and one of whose sends an
-- attempt is under way once that is settled. The entries are removed too,
-- including void ones, so that the next call sees others.
--
-- Returns for each target: field of departures, accounts, what they remember. An account
-- is its id, a letter (s scheduled, p parked; S or P if its sends follow its fields), due
-- or parked at, what follows its ticket, and its fields, each LENGTH:VALUE, or - if there
-- is none. known_away has, for each account that remembers, its id and what known_of
-- returns, in the same form.

local tickets, schedule, parked, departures, leaving = KEYS[1], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local sequence = {KEYS[2], KEYS[10]}
local FIELDS, box = 19, outbox(11)
local away = #KEYS - (#ARGV - 1) / 2
local last = away - 1

local wrong = mistyped(tickets, 'hash', KEYS[2], 'string', schedule, 'zset', parked, 'zset', departures, 'hash',
  leaving, 'string')
for k = 7, 9 do wrong = wrong or mistyped(KEYS[k], 'list') end
for k = FIELDS, away do wrong = wrong or mistyped(KEYS[k], 'hash') end
wrong = wrong or outbox_mistyped(box)
if wrong then return wrong end
if redis.call('EXISTS', leaving) == 0 then return redis.error_reply('ERR the shard is not being left') end

local function text(value)
  return value and #value .. ':' .. value or '-'
end

local now, most = clock(), tonumber(ARGV[1])
local gone, batches, order, entries, bytes = {}, {}, {}, {}, 0
local departed, remembered, forgotten = {}, {}, {}
local sending = redis.call('EXISTS', box.index) == 1
for a = 2, #ARGV, 4 do
  local id, target, lane, entry = ARGV[a], ARGV[a + 1], tonumber(ARGV[a + 2]), ARGV[a + 3]
  -- An id may come more than once, first under a void entry. Only an account that has
  -- departed has no current ticket left.
  local current = not departed[id] and redis.call('HGET', tickets, id)
  local waits = lane > 0 and current and ticket_of(current) == ticket_of(entry)
  if lane > 0 and not waits then entries[#entries + 1] = a end
  if current then
    local place, at = 's', redis.call('ZSCORE', schedule, id)
    local out = redis.call('ZSCORE', parked, id)
    if out then
      place, at = 'p', out
    elseif not at and waits then
      at = sub(entry, 16, 28)
    end
    if at and sending and under_attempt(box, id) then at = nil end
    if at then
      local sends = sending and packed_sends(box, id) or ''
      if sends ~= '' then
        place = string.upper(place)
        remove_sends(box, id)
      end
      local parts = {text(id), text(place), text(format('%.0f', tonumber(at))), text(sub(current, 15))}
      for k = FIELDS, last do parts[#parts + 1] = text(redis.call('HGET', KEYS[k], id)) end
      if sends ~= '' then parts[#parts + 1] = text(sends) end
      local account = table.concat(parts)
      local batch = batches[target]
      if not batch then
        batch = {}
        batches[target] = batch
        order[#order + 1] = target
      end
      batch[#batch + 1] = account
      gone[#gone + 1] = id
      departed[id] = true
      if waits then entries[#entries + 1] = a end
      bytes = bytes + #account
      local own = away + (a - 2) / 2
      local known = known_of(KEYS[own + 1], KEYS[own + 2])
      if known then
        for k = 1, 4 do known[k] = text(known[k]) end
        known = text(id) .. table.concat(known)
        remembered[target] = (remembered[target] or '') .. known
        forgotten[#forgotten + 1], forgotten[#forgotten + 2] = KEYS[own + 1], KEYS[own + 2]
        bytes = bytes + #known
      end
      if bytes >= most then break end
    end
  end
end

even_when_full(departures)
local answer = {}
local _, number
if #order > 0 then _, number = take_ticket(sequence, now, #order) end
for i, target in ipairs(order) do
  local field, accounts = target .. ':' .. format('%014d', number + i - 1), table.concat(batches[target])
  redis.call('HSET', departures, field, accounts)
  if remembered[target] then
    redis.call('HSET', KEYS[away], field, remembered[target])
    redis.call('PEXPIRE', KEYS[away], 1209600000) -- two weeks, in case that a version without memory drops the shard
  end
  answer[3 * i - 2], answer[3 * i - 1], answer[3 * i] = field, accounts, remembered[target] or ''
end
if #gone > 0 then
  redis.call('HDEL', tickets, unpack(gone))
  redis.call('ZREM', schedule, unpack(gone))
  redis.call('ZREM', parked, unpack(gone))
  for k = FIELDS, last do redis.call('HDEL', KEYS[k], unpack(gone)) end
  if #forgotten > 0 then redis.call('UNLINK', unpack(forgotten)) end
end
-- They were seen near the tail. Looking for a missing entry would cost a walk through the
-- whole lane. An entry that has moved further away is void, and a claim drops it.
local near = {}
for _, a in ipairs(entries) do
  local lane = KEYS[6 + tonumber(ARGV[a + 2])]
  if not near[lane] then
    near[lane] = {}
    for _, entry in ipairs(redis.call('LRANGE', lane, -4000, -1)) do near[lane][entry] = true end
  end
  if near[lane][ARGV[a + 3]] then redis.call('LREM', lane, -1, ARGV[a + 3]) end
end
return answer
