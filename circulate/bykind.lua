-- by kind: what the scripts know about message_queue:by_kind. It comes after entry.lua.
--
-- A member is KIND, a tab, a rank, | and the entry. All members have one score, so that
-- the members of a kind stand together, lowest rank first. The rank is since when the
-- entry waits, a minute earlier for an urgent account and a minute later for one that can
-- wait. So none of them starves.

local RANK = {u = -60000, n = 0, l = 60000}

-- The kinds that a replica checks, in their order and as a set; if it names none, any
-- kind.
local function checked_kinds(text)
  local checks = {any = text == ''}
  for kind in string.gmatch(text, '[^\t]+') do
    checks[#checks + 1] = kind
    checks[kind] = true
  end
  return checks
end

local function members_of(by_kind, kind, most)
  return redis.call('ZRANGEBYLEX', by_kind, '[' .. kind .. '\t', '(' .. kind .. '\n', 'LIMIT', 0, most)
end

local function kind_of(member) return string.match(member, '^[^\t]*') end

local function entry_of(member)
  return sub(member, (string.find(member, '\t', 1, true) or -14) + 15)
end

-- Takes up to that many entries of those kinds to the head of a list, and adds them to
-- the taken ones. Each time another kind comes first.
local function take_by_kind(by_kind, list, checks, now, most, taken)
  if most < 1 then return end -- for ZRANGE, 0 -1 is all of them
  local members = {}
  if checks.any then
    members = redis.call('ZRANGE', by_kind, 0, most - 1)
  else
    for i = 1, #checks do
      if #members >= most then break end
      for _, member in ipairs(members_of(by_kind, checks[(now + i) % #checks + 1], most - #members)) do
        members[#members + 1] = member
      end
    end
  end
  if #members == 0 then return end
  for _, member in ipairs(members) do
    taken[#taken + 1] = entry_of(member)
    redis.call('LPUSH', list, taken[#taken])
  end
  redis.call('ZREM', by_kind, unpack(members))
end

-- Makes accounts wait by their kinds, each given as {kind, id, its tickets field, the
-- fresh entry}, and wakes replicas if the account is the first of its kind to wait.
local function wait_by_kind(by_kind, tickets, all, channel, shard, now)
  local issued, members, woken = {}, {}, false
  for _, one in ipairs(all) do
    local kind, id, current, entry = one[1], one[2], one[3], one[4]
    if not woken and #members_of(by_kind, kind, 1) == 0 then woken = true end
    issued[#issued + 1], issued[#issued + 2] = id, ticket_of(entry) .. sub(current, 15)
    local rank = math.max(0, tonumber(sub(entry, 16, 28)) + RANK[lane_of(current)])
    members[#members + 1], members[#members + 2] = 0, kind .. '\t' .. stamp(rank) .. '|' .. entry
  end
  redis.call('ZADD', by_kind, unpack(members))
  redis.call('HSET', tickets, unpack(issued))
  if woken then wake(channel, shard, now) end
end
