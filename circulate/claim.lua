-- claim: promote what is due, then take accounts from the lanes of message_queue.
--
-- KEYS[1]   message_queue    LIST
-- KEYS[2]   processing_list  LIST
-- KEYS[3]   schedule         ZSET  id -> due
-- KEYS[4]   tickets          HASH  id -> current ticket and what follows it
-- KEYS[5]   ticket_seq       STRING
-- KEYS[6]   cursors          HASH  id -> long cursor
-- KEYS[7]   failures         HASH  id -> failures in a row
-- KEYS[8]   nudges           HASH  id -> due|expiry|hint
-- KEYS[9]   changes          ZSET  id -> when its record changed
-- KEYS[10]  set_aside        LIST
-- KEYS[11]  strikes          HASH  id -> requeues since the last return
-- KEYS[12]  states           HASH  id -> what its cadence keeps
-- KEYS[13]  message_queue:urgent  LIST
-- KEYS[14]  message_queue:low     LIST
-- KEYS[15]  turns            STRING  accounts taken while several lanes waited
-- KEYS[16]  leaving          STRING  until when nothing is taken, as accounts go to other shards
-- KEYS[17]  ticket_mark      STRING
-- KEYS[18]  message_queue:by_kind  ZSET  entries that only replicas of their kind take
-- KEYS[19]  kinds            HASH  id -> kind of an account that some replica cannot check
-- ARGV[1]   the replica that claims
-- ARGV[2]   how many accounts, at most
-- ARGV[3]   up to which change the replica knows the shard's records
-- ARGV[4], ARGV[5]  the channel to wake replicas on, and the shard
-- ARGV[6]   the kinds that the replica checks, a tab before each; empty = any
-- ARGV[7]   how many ms before it is due an account may be taken, where nothing waits;
--           without it none is
--
-- Returns {now, next due, changes, lengths, entries, since when they waited, what stood in
-- tickets}, and then, where any of them is anything: {..., void, malformed, passed by, long
-- cursors, failures, hints, states, strikes}. Where nothing waits: {now, next due}.
-- Next due is 0 where more may wait now, -1 where nothing is scheduled. Changes is 0 where
-- the replica knows all, or else the ids of the records that changed, and at last the change
-- up to which it knows them then, or that change alone where it must forget every record.
-- Entries, the stamps since when they waited, and what stood in tickets are one text each.
-- Lengths is a text that tells how long the parts are, of an entry and of what stood in
-- tickets, a space after each, and empty where there is one account. Of what follows, false
-- is none at all.

local queue, processing, schedule, tickets, ticket_seq, cursors, failures, nudges, changes, set_aside,
  strikes, states, urgent, low, turns, leaving, ticket_mark, by_kind, kinds = unpack(KEYS)
local replica, want, known = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local ahead = ARGV[7] and tonumber(ARGV[7]) or 0
local now = clock()

-- More accounts are promoted than taken, so that an urgent one does not wait in the
-- schedule behind accounts that became due earlier.
local PROMOTE = 512

local by_now = stamp(now)
local due = redis.call('ZRANGEBYSCORE', schedule, '-inf', ahead > 0 and stamp(now + ahead) or by_now,
  'WITHSCORES', 'LIMIT', '0', want > PROMOTE and ARGV[2] or '512')
local waiting = redis.call('EXISTS', queue, urgent, low, by_kind) > 0
if #due == 0 and not waiting then
  -- shared here
  return {now, next_due(schedule)}
end

-- Types are checked before the first write, mostly by reads that are needed anyway. The
-- keys that mostly do not exist are checked only if one of them exists. A key that is not
-- checked here is checked by its first write, which then has no effect.
local newest = redis.call('ZREVRANGE', changes, '0', '0', 'WITHSCORES')[2] -- of the last change
local found = redis.call('EXISTS', cursors, failures, nudges, strikes, states, set_aside, urgent, low, turns, leaving, by_kind, kinds)
local there, turn = {}, nil
if found > 0 then
  local hashes = {failures, states, cursors, nudges, strikes} -- the most common ones first
  for k = 1, 5 do
    if found > 0 and redis.call('HLEN', hashes[k]) > 0 then there[hashes[k]], found = true, found - 1 end
  end
end
if found > 0 then
  turn = redis.call('GET', turns)
  if turn then found = found - 1 end
end
if found > 0 then
  -- shared here
  local wrong, more = mistyped(set_aside, 'list', urgent, 'list', low, 'list', leaving, 'string',
    by_kind, 'zset', kinds, 'hash', queue, 'list', processing, 'list')
  if wrong then return wrong end
  for key in pairs(more) do there[key] = true end
end

-- The mover repeats this, so a mover that has stopped, or a clock that went back, blocks
-- claims only for a short time.
if there[leaving] then
  local till = tonumber(redis.call('GET', leaving)) or 0
  if till > now and till - now <= 10000 then return {now, till} end
end

redis.call('HDEL', tickets, '') -- as even_when_full does
local fresh = take_ticket({ticket_seq, ticket_mark}, now)

-- Of accounts that are due later, only as many are promoted as are taken: another replica
-- would check the rest too early.
if ahead > 0 and #due > 0 and tonumber(due[#due]) > now then
  local most = waiting and 0 or 2 * want
  while #due > most and tonumber(due[#due]) > now do due[#due], due[#due - 1] = nil, nil end
end

-- Promote. An id without a ticket is not registered and just leaves the schedule. Due
-- accounts are at its front, so they are removed by rank, except where late ones were
-- chosen.
local held_by -- the tickets fields of the promoted accounts
local taken, ids -- made with their first elements, at half the cost of growing
-- The claimed accounts: their ids, since when each waited, their tickets fields, the new
-- entries, and the new tickets fields.
local n, since, current, entries, issued = 0, nil, nil, nil, nil
local head = fresh .. '|' .. by_now .. '|' .. replica .. '|'
local at_once = false
local all, dues, many, standing -- of the accounts to promote
local late = false
if #due > 2 * want then
  -- shared here
  late = are_late(queue, due, waiting, now)
  if late then
    all, dues, standing = choose_late(schedule, tickets, due, {n = queue, l = low}, want, now, tonumber(fresh))
    many = #all
  end
end
if many ~= 0 and #due > 0 then
  if not late then
    all, dues, many = {}, {}, 0
    for i = 1, #due, 2 do
      many = many + 1
      all[many], dues[many] = due[i], #due[i + 1] == 13 and due[i + 1] or stamp(tonumber(due[i + 1]))
    end
    standing = redis.call('HMGET', tickets, unpack(all))
  end
  at_once = not waiting and many <= want and not there[kinds] and not late
  if at_once then
    -- shared here
    for i = 1, many do
      local lane, rule = byte(standing[i] or '', 15, 16)
      if lane ~= NORMAL or rule == NUDGED_BYTE then
        at_once = false
        break
      end
    end
  end
  if at_once then
    -- Nothing waits, and the normal lane gives all of them: they leave message_queue as
    -- they enter it, and are not looked at again.
    redis.call('LLEN', processing)
    n, ids, since, current, entries, issued = many, all, dues, standing, {}, {}
    for i = 1, n do
      local id = ids[i]
      entries[i], issued[2 * i - 1], issued[2 * i] = head .. id, id, fresh .. sub(current[i], 15)
    end
    redis.call('LPUSH', queue, unpack(entries))
    for _ = 1, n do redis.call('RPOPLPUSH', queue, processing) end
    redis.call('HSET', tickets, unpack(issued))
    redis.call('ZREMRANGEBYRANK', schedule, '0', n - 1)
  else
    -- shared here
    held_by = {}
    local promoted, lanes = {u = {}, n = {}, l = {}}, {} -- lanes by lane and rule
    for i = 1, many do
      local id, at = all[i], standing[i]
      if at then
        local of = sub(at, 15, 16)
        local lane = lanes[of]
        if not lane then
          lane = promoted[lane_of(at)]
          lanes[of] = lane
        end
        lane[#lane + 1] = ticket_of(at) .. '|' .. dues[i] .. WAITS .. id
        held_by[id] = at
      end
    end
    -- The normal lane comes first: its type has not been checked.
    if #promoted.n > 0 then redis.call('LPUSH', queue, unpack(promoted.n)) end
    if #promoted.u > 0 then redis.call('LPUSH', urgent, unpack(promoted.u)) end
    if #promoted.l > 0 then redis.call('LPUSH', low, unpack(promoted.l)) end
    there[urgent], there[low] = there[urgent] or #promoted.u > 0, there[low] or #promoted.l > 0
    if late then
      redis.call('ZREM', schedule, unpack(all))
    else
      redis.call('ZREMRANGEBYRANK', schedule, '0', many - 1)
    end
  end
end

-- Take. First those that wait by kind, but at most half if others wait as well, so that
-- neither starves.
local checks
if there[by_kind] or there[kinds] then
  -- shared here
  checks = checked_kinds(ARGV[6])
end
if there[by_kind] then
  -- shared here
  taken, ids = {}, {}
  local alone = redis.call('EXISTS', queue, urgent, low) == 0
  take_by_kind(by_kind, processing, checks, now, alone and want or math.floor((want + now % 2) / 2), taken)
  for i = 1, #taken do ids[i] = sub(taken[i], ID) end
end
local first = taken and #taken + 1 or 1
if at_once then
  -- They are claimed.
elseif not there[urgent] and not there[low] then
  for i = first, want do
    local entry = redis.call('RPOPLPUSH', queue, processing)
    if not entry then break end
    if taken then
      taken[i], ids[i] = entry, sub(entry, ID)
    else
      taken, ids = {entry}, {sub(entry, ID)}
    end
  end
else
  -- Urgent before normal before low. But of every sixteen turns the low lane comes first
  -- in one and the normal lane in three, so that no lane starves.
  local usual, normal_first, low_first = {urgent, queue, low}, {queue, urgent, low}, {low, urgent, queue}
  there[queue] = redis.call('LLEN', queue) > 0
  turn = tonumber(turn or '0') or 0
  taken, ids = taken or {}, ids or {}
  for i = first, want do
    local slot = (turn + i - first) % 16
    local order = slot == 15 and low_first or slot % 4 == 3 and normal_first or usual
    local entry
    for k = 1, 3 do
      if there[order[k]] then
        entry = redis.call('RPOPLPUSH', order[k], processing)
        if entry then break end
        there[order[k]] = nil
      end
    end
    if not entry then break end
    taken[i] = entry
    ids[i] = sub(entry, ID)
  end
  redis.call('SET', turns, format('%.0f', (turn + #taken - first + 1) % 16))
end
if there[by_kind] and #taken < want then
  -- shared here
  local had = #taken
  take_by_kind(by_kind, processing, checks, now, want - had, taken)
  for i = had + 1, #taken do ids[i] = sub(taken[i], ID) end
end
local count = at_once and n or taken and #taken or 0
local void, malformed, passed = 0, 0, nil
if count > 0 and not at_once then
  if held_by then
    local ask, places = {}, {}
    current = {}
    for i = 1, count do
      current[i] = held_by[ids[i]]
      if not current[i] then ask[#ask + 1], places[#places + 1] = ids[i], i end
    end
    if #ask > 0 then
      for k, at in ipairs(redis.call('HMGET', tickets, unpack(ask))) do current[places[k]] = at end
    end
  else
    current = redis.call('HMGET', tickets, unpack(ids))
  end
  local known_kinds = there[kinds] and not checks.any and redis.call('HMGET', kinds, unpack(ids)) or nil
  local once = {}
  for i = 1, count do
    local entry, id, at = taken[i], ids[i], current[i]
    if at and sub(at, 1, 14) == sub(entry, 1, 14) and not once[id] then
      -- Two monitors may have put the same entry back twice. The first one takes the
      -- ticket, the second one is void.
      if count > 1 then once[id] = true end
      if known_kinds and known_kinds[i] and not checks[known_kinds[i]] then
        passed = passed or {}
        passed[#passed + 1] = {known_kinds[i], id, at, fresh .. sub(entry, 15)}
      else
        n = n + 1
        if n < i then ids[n], current[n] = id, at end
        local held, waited, renewed = head .. id, sub(entry, 16, 28), fresh .. sub(at, 15)
        if n > 1 then
          entries[n], since[n], issued[2 * n - 1], issued[2 * n] = held, waited, id, renewed
        else
          entries, since, issued = {held}, {waited}, {id, renewed}
        end
      end
    else
      void = void + 1
      -- shared here
      if not well_formed(entry) then
        void, malformed = void - 1, malformed + 1
        redis.call('LPUSH', set_aside, entry)
      elseif not at then
        -- The account was deregistered and then requeued: no field of it may stay.
        redis.call('HDEL', strikes, id)
      end
    end
  end
  if malformed > 0 then redis.call('LTRIM', set_aside, 0, 999) end

  -- Accounts that this replica cannot check wait for replicas that can.
  if passed then
    -- shared here
    wait_by_kind(by_kind, tickets, passed, ARGV[4], ARGV[5], now)
  end

  -- The taken entries are at the head: the fresh ones take their place.
  redis.call('LTRIM', processing, count == 1 and '1' or count, '-1')
  if n > 0 then
    redis.call('LPUSH', processing, unpack(entries))
    redis.call('HSET', tickets, unpack(issued))
  end
end

-- The other values that a check needs. Long cursors, failures, states and nudges are
-- rare, so their absence is looked up once and not for each account.
local long, failed, hints, state, struck = false, false, false, false, false
for i = n + 1, count do ids[i], current[i] = nil, nil end
if n > 0 and next(there) then
  if there[cursors] then
    long = redis.call('HMGET', cursors, unpack(ids))
  end
  if there[failures] then
    failed = redis.call('HMGET', failures, unpack(ids))
  end
  if there[strikes] then
    struck = redis.call('HMGET', strikes, unpack(ids))
  end
  if there[states] then
    state = redis.call('HMGET', states, unpack(ids))
  end
  if there[nudges] then
    hints = {}
    for i, nudge in ipairs(redis.call('HMGET', nudges, unpack(ids))) do
      hints[i] = false
      if nudge then
        -- This check answers the nudge. Its hint stays until the check is returned,
        -- because another replica may have to repeat the check.
        local hint = sub(nudge, 29)
        if hint == '' or tonumber(sub(nudge, 15, 27)) <= now then
          redis.call('HDEL', nudges, ids[i])
        else
          hints[i] = hint
          redis.call('HSET', nudges, ids[i], stamp(0) .. sub(nudge, 14))
        end
      end
    end
  end
end

local changed = 0
if (newest or '0') ~= known then
  local change, least = newest and format('%.0f', tonumber(newest)) or '0', tonumber(known)
  local oldest = redis.call('ZRANGE', changes, '0', '0', 'WITHSCORES')[2]
  if change == known then
    changed = 0 -- it was written in another way
  elseif oldest and least >= tonumber(oldest) and least < tonumber(change) then
    changed = redis.call('ZRANGEBYSCORE', changes, '(' .. known, '+inf')
    changed[#changed + 1] = change
  else
    changed = change
  end
end

local next_one = 0
if count < want then
  -- shared here
  next_one = next_due(schedule)
end
local lengths, held, waited, had = '', '', '', ''
if n == 1 then
  held, waited, had = entries[1], since[1], current[1]
elseif n > 1 then
  local of, known_lengths = {}, {}
  for i = 1, n do
    local both = #entries[i] * 4294967296 + #current[i]
    local length = known_lengths[both]
    if not length then
      length = #entries[i] .. ' ' .. #current[i] .. ' '
      known_lengths[both] = length
    end
    of[i] = length
  end
  local concat = table.concat
  lengths, held, waited, had = concat(of), concat(entries), concat(since), concat(current)
end
if n == count and not (long or failed or hints or state or struck) then
  return {now, next_one, changed, lengths, held, waited, had}
end
return {now, next_one, changed, lengths, held, waited, had,
  void, malformed, passed and #passed or 0, long, failed, hints, state, struck}
