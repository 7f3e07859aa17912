-- entry: what every script knows of clocks, entries and types; it stands in
-- front of each of them.
--
-- An entry is ticket(14) | stamp(13) | replica(10) | id. See entry.go.

local ID = 41
local NOBODY = '----------'
local sub, byte, format = string.sub, string.byte, string.format

-- The time by Redis' own clock, unix ms.
local function clock()
  local t = redis.call('TIME')
  return tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
end

local function well_formed(entry)
  return #entry >= ID and byte(entry, 15) == 124 and byte(entry, 29) == 124 and byte(entry, 40) == 124
end

local function ticket_of(entry) return sub(entry, 1, 14) end

-- The tickets HASH holds all that each account has and that is short: a field of
-- its own in another HASH would cost an account more than twice its length.
--
--   ticket(14) lane(1) rule(1) success(8) marks(8) cursor
--
-- The lane is u, n or l. The rule is a letter for what decided when the account
-- is due; the ring's own are below. Success is when a check last succeeded
-- completely, or else when the account was registered, in hexadecimal seconds.
-- Marks are the letters of its last checks, the newest first, MARK_OK one of a
-- complete success, '-' none. A cursor longer than SHORT is in the cursors HASH.
local SHORT = 44
local REGISTERED, RESUMED, NUDGED, TURN = 'r', 'e', 'g', 'l'
local MARK_OK, NO_MARKS = '+', '--------'

-- Whatever a lane may be that this version does not know, it is a normal one.
local LANES = {u = 'u', n = 'n', l = 'l'}
local function lane_behind(ticket) return LANES[sub(ticket, 15, 15)] or 'n' end
local function rule_behind(ticket) return sub(ticket, 16, 16) end
local function history_behind(ticket) return sub(ticket, 17, 32) end
local function cursor_behind(ticket) return sub(ticket, 33) end

local function seconds(ms) return format('%08x', math.floor(ms / 1000)) end

-- The lane that an account waits in: who is nudged goes with the urgent ones.
local function lane_of(ticket)
  return rule_behind(ticket) == NUDGED and 'u' or lane_behind(ticket)
end

local function stamp(ms) return format('%013d', ms) end

-- Takes n tickets and returns the number before the first. A sequence that is
-- gone begins above whatever the old one can have reached: ten for each
-- millisecond since 1970.
local function take_tickets(ticket_seq, n, now)
  local last = redis.call('INCRBY', ticket_seq, n)
  if last == n then
    last = redis.call('INCRBY', ticket_seq, now * 10)
  end
  return last - n
end

-- Takes one ticket, as entries have it.
local function take_ticket(ticket_seq, now)
  return format('%014d', take_tickets(ticket_seq, 1, now) + 1)
end

-- Gives an account a fresh ticket, and another rule if one is given, and leaves
-- what stands behind it.
local function renew(tickets, ticket_seq, id, current, now, rule)
  local fresh = take_ticket(ticket_seq, now)
  redis.call('HSET', tickets, id, fresh .. lane_behind(current) .. (rule or rule_behind(current)) .. sub(current, 17))
  return fresh
end

-- Arguments are pairs of key and type. Returns an error reply for the first key
-- that has another type, so that a script can stop before it writes, and
-- otherwise nil and the set of those keys that are there at all.
local function mistyped(...)
  local pairs_of, there = {...}, {}
  for i = 1, #pairs_of, 2 do
    local key = pairs_of[i]
    local is = redis.call('TYPE', key)
    is = is.ok or is
    if is == pairs_of[i + 1] then
      there[key] = true
    elseif is ~= 'none' then
      return redis.error_reply('WRONGTYPE ' .. key .. ' is a ' .. is .. ', not a ' .. pairs_of[i + 1])
    end
  end
  return nil, there
end

-- Is mistyped for keys that are often there, and for others that are mostly not,
-- which are asked about one by one only where there is any of them.
local function mistyped_mostly(often, rarely)
  local wrong, there = mistyped(unpack(often))
  if wrong then return wrong end
  local keys = {}
  for i = 1, #rarely, 2 do keys[#keys + 1] = rarely[i] end
  if redis.call('EXISTS', unpack(keys)) == 0 then return nil, there end
  local more
  wrong, more = mistyped(unpack(rarely))
  if wrong then return wrong end
  for key in pairs(more) do there[key] = true end
  return nil, there
end

-- On a Redis at its memory limit a script must not begin with a command that could
-- need more, but may go on with one. A step that frees, or moves what is there,
-- begins with a removal of nothing from a HASH: so a full Redis does not stop what
-- makes room.
local function even_when_full(hash) redis.call('HDEL', hash, '') end

-- The opposite: a write of nothing that a full Redis refuses, before a step that
-- adds has written anything.
local function only_with_room(ticket_seq) redis.call('INCRBY', ticket_seq, 0) end

-- The first due time of a schedule; huge where it is empty.
local function first_due(schedule)
  local first = redis.call('ZRANGE', schedule, 0, 0, 'WITHSCORES')
  return first[2] and tonumber(first[2]) or math.huge
end

-- Tells the replicas that sleep until a shard's first due time of an earlier one.
local function wake(channel, shard, due)
  redis.call('PUBLISH', channel, shard .. ' ' .. format('%.0f', due))
end

-- When a record changes, unix µs: unlike a counter it never comes back to what
-- it was, even after a failover that forgot the latest changes; and where the
-- clock went back it is still after every change there is, or a replica that
-- knows those would not see this one.
local function change_stamp(changes)
  local t = redis.call('TIME')
  local newest = redis.call('ZREVRANGE', changes, 0, 0, 'WITHSCORES')
  return format('%.0f', math.max(tonumber(t[1]) * 1000000 + tonumber(t[2]), (tonumber(newest[2]) or 0) + 1))
end
