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

-- The tickets HASH holds an account's ticket and, right behind it, its cursor
-- where that is short: most are, and a field of their own would cost each more
-- than twice its length. A longer cursor is in the cursors HASH.
local SHORT = 46

local function cursor_behind(ticket)
  return sub(ticket, 15)
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

-- Gives an account a fresh ticket and leaves its cursor where it is.
local function renew(tickets, ticket_seq, id, current, now)
  local fresh = take_ticket(ticket_seq, now)
  redis.call('HSET', tickets, id, fresh .. cursor_behind(current))
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
-- it was, even after a failover that forgot the latest changes.
local function change_stamp()
  local t = redis.call('TIME')
  return format('%.0f', tonumber(t[1]) * 1000000 + tonumber(t[2]))
end
