-- Which accounts a claim promotes where accounts are late. It comes after entry.lua.
--
-- Accounts are late where one has waited for LATE ms, and more are due than a claim takes.
-- Then the relatively latest go first: those with the most lateness for each ms of their
-- interval. Their order changes as time passes, so none is stored. A claim looks at bounded
-- samples of what is due, and promotes no more than is taken soon.

local LATE = 10000
local SAMPLE, FEW = 128, 64 -- accounts in a sample
local GOLDEN = 0.6180339887498949 -- its multiples, without their integers, spread evenly

-- Whether what waits or what is due has waited for too long.
local function are_late(queue, due, waiting, now)
  if now - tonumber(due[2]) >= LATE then return true end
  local oldest = waiting and redis.call('LINDEX', queue, '-1')
  return oldest and now - (tonumber(sub(oldest, 16, 28)) or now) >= LATE or false
end

-- How late an account is for each ms of its interval, given its tickets field. The interval
-- is the time between its last success and when it is due, at least a second. After a failure
-- the wait is an hour at most, whenever the last success was. An account that was never
-- checked has only the time of its registration, and counts as one with a minute.
local function relative(at, due, now)
  local succeeded = tonumber(sub(at, 17, 24), 16)
  local interval = succeeded and due - succeeded * 1000 or 60000
  local last = sub(at, 25, 25)
  if last == '-' and interval < 60000 then interval = 60000 end
  if last ~= MARK_OK and interval > 3600000 then interval = 3600000 end
  return (now - due) / (interval < 1000 and 1000 or interval)
end

-- Returns the ids to promote, when each was due as a stamp, and what stands in tickets, an
-- id's false if it is not registered. First is the front of the schedule, with scores. Turn is
-- another number for each claim. Lanes are those of want taken accounts, by their letters.
--
-- Of urgent accounts all that are found are promoted. Of each other lane so many are that
-- twice as many wait there as a claim takes, if fewer wait than it takes. Every eighth of
-- them, and at least one, is the earliest due, so that no account starves.
local function choose_late(schedule, tickets, first, lanes, want, now, turn)
  local room, any = {u = math.huge}, false
  for _, lane in ipairs({'n', 'l'}) do
    local length = redis.call('LLEN', lanes[lane])
    room[lane] = length < want and math.max(8, 2 * want) - length or 0
    if lane == 'n' then any = room.n > 0 end
  end
  -- Where the lane has enough, only urgent accounts are looked for: a nudged one is due
  -- now, and others are anywhere.
  local size, samples = FEW, 1
  if any then size, samples = math.max(SAMPLE, want), 3 end
  local ids, dues, seen = {}, {}, {}
  local function look(page, most)
    for i = 1, math.min(#page, most), 2 do
      local id, due = page[i], tonumber(page[i + 1])
      if due <= now and not seen[id] then
        seen[id] = true
        ids[#ids + 1], dues[#dues + 1] = id, due
      end
    end
  end
  look(first, 2 * size)
  local many = redis.call('ZCOUNT', schedule, '-inf', format('%.0f', now))
  local function sample(from, n) look(redis.call('ZRANGE', schedule, from, from + n - 1, 'WITHSCORES'), 2 * n) end
  sample(math.max(0, many - FEW), FEW)
  for k = 1, samples do
    local part = (turn * GOLDEN + k / samples) % 1
    sample(math.floor(part * math.max(0, many - size + 1)), size)
  end
  if #ids == 0 then return {}, {}, {} end

  local standing = redis.call('HMGET', tickets, unpack(ids))
  local order, lane, late = {}, {}, {}
  for i = 1, #ids do
    order[i] = i
    lane[i] = standing[i] and lane_of(standing[i]) or 'u'
    late[i] = standing[i] and relative(standing[i], dues[i], now) or math.huge
  end
  local chosen = {}
  for _, of in ipairs({'n', 'l'}) do
    local most = math.ceil(room[of] / 8)
    for i = 1, #ids do -- those of the front come first
      if most == 0 then break end
      if lane[i] == of then
        chosen[i], most, room[of] = true, most - 1, room[of] - 1
      end
    end
  end
  table.sort(order, function(a, b)
    if late[a] ~= late[b] then return late[a] > late[b] end
    return a < b
  end)
  local all, since, current = {}, {}, {}
  for _, i in ipairs(order) do
    local of = lane[i]
    if chosen[i] or room[of] > 0 then
      if not chosen[i] then room[of] = room[of] - 1 end
      local n = #all + 1
      all[n], since[n], current[n] = ids[i], stamp(dues[i]), standing[i]
    end
  end
  return all, since, current
end
