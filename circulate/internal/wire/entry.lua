-- entry: shared by scripts, about clocks, entries and types. Each script gets the parts
-- that it uses: see parts.go.
--
-- An entry is ticket(14) | stamp(13) | replica(10) | id. See entry.go.

local ID = 41
local NOBODY = '----------'
local WAITS = '|----------|' -- between the stamp and the id of a waiting entry
local sub, format = string.sub, string.format
local byte = string.byte

-- The time by Redis' own clock, unix ms.
local function clock()
  local t = redis.call('TIME')
  local us = t[2] + 0
  return t[1] * 1000 + (us - us % 1000) / 1000
end

local function well_formed(entry)
  return #entry >= ID and byte(entry, 15) == 124 and byte(entry, 29) == 124 and byte(entry, 40) == 124
end

local function ticket_of(entry) return sub(entry, 1, 14) end

-- The tickets HASH has all short values of each account: a field in another HASH would
-- cost an account more than twice the value's length.
--
--   ticket(14) lane(1) rule(1) success(8) marks(8) cursor
--
-- The lane is u, n or l. The rule is a letter for why the account is due when it is. The
-- ring's own rules are below. Success is when a check last succeeded completely, or else
-- when the account was registered, in hexadecimal seconds. Marks are the letters of its
-- last checks, the newest first: MARK_OK for a complete success, '-' for no check. A
-- cursor longer than SHORT is in the cursors HASH.
local SHORT = 44
local REGISTERED, RESUMED, NUDGED, TURN = 'r', 'e', 'g', 'l'
local MARK_OK, NO_MARKS = '+', '--------'

-- A lane that this version does not know counts as normal.
local LANES = {u = 'u', n = 'n', l = 'l'}
local function lane_behind(ticket) return LANES[sub(ticket, 15, 15)] or 'n' end
local function rule_behind(ticket) return sub(ticket, 16, 16) end
local function history_behind(ticket) return sub(ticket, 17, 32) end
local function cursor_behind(ticket) return sub(ticket, 33) end

local function seconds(ms) return format('%08x', math.floor(ms / 1000)) end

-- The lane that an account waits in. A nudged account waits in the urgent lane.
local function lane_of(ticket)
  return rule_behind(ticket) == NUDGED and 'u' or lane_behind(ticket)
end

local function stamp(ms) return format('%013d', ms) end
local NEVER = '0000000000000'
local NORMAL, NUDGED_BYTE = byte('n'), byte(NUDGED)

-- A sequence of tickets is two keys: ticket_seq has the last ticket issued, and
-- ticket_mark a number that no ticket has reached, at most BLOCK further on.
local LAST_TICKET = 99999999999999
local BLOCK = 4096

-- Takes a ticket, or many, at most BLOCK, and returns the first as entries have it, and
-- its number. A server that accepts no writes refuses that, so it comes before anything
-- that removes. An unused ticket does no harm. All accounts of a step share one: a ticket
-- is only ever compared with others of the same account.
--
-- A sequence that is lost, or no usable number, begins that many tickets above its mark.
-- If the mark is lost as well, it begins at ten for each millisecond since 1970, which is
-- more than a shard issues in the long run.
local function take_ticket(sequence, now, many)
  local n = many or 1
  local last = redis.pcall('INCRBY', sequence[1], many or '1')
  local usable = type(last) == 'number' and last > n and last <= LAST_TICKET
  if not usable or last % BLOCK < n then
    if type(last) == 'table' and not (string.find(last.err, 'not an integer', 1, true) or string.find(last.err, 'overflow', 1, true)) then
      redis.call('INCRBY', sequence[1], n) -- if Redis refuses this, the step fails
    end
    if not usable then
      local known = redis.pcall('GET', sequence[2])
      known = type(known) == 'string' and tonumber(known) or 0
      last = now * 10 + n
      if known + n > last and known % 1 == 0 and known < LAST_TICKET - BLOCK then last = known + n end
      redis.call('SET', sequence[1], format('%.0f', last))
    end
    redis.call('SET', sequence[2], format('%.0f', last - last % BLOCK + BLOCK))
  end
  local first = last - n + 1
  return format('%014d', first), first
end

-- Gives an account a fresh ticket, and another rule if one is passed. The rest of the
-- field stays.
local function renew(tickets, sequence, id, current, now, rule)
  local fresh = take_ticket(sequence, now)
  redis.call('HSET', tickets, id, fresh .. lane_behind(current) .. (rule or rule_behind(current)) .. sub(current, 17))
  return fresh
end

-- Moves a scheduled account to the urgent lane, given its tickets field and when it was
-- due. It is for accounts that were due already, so their order in the schedule matters
-- no more.
local function move_to_front(schedule, urgent, tickets, id, current, due)
  redis.call('LPUSH', urgent, ticket_of(current) .. '|' .. stamp(due) .. WAITS .. id)
  redis.call('ZREM', schedule, id)
  redis.call('HSET', tickets, id, sub(current, 1, 15) .. NUDGED .. sub(current, 17))
end

-- Takes pairs of key and type. Returns an error reply for the first key with another
-- type, so that a script can stop before it writes. Otherwise returns nil and the set of
-- the keys that exist.
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

-- On a Redis at its memory limit a script must not begin with a command that could need
-- more, but may go on with one. A step that frees memory, or moves accounts, begins by
-- removing nothing from a HASH, so that a full Redis does not stop it. A step that adds
-- begins with its tickets, which a full Redis refuses.
local function even_when_full(hash) redis.call('HDEL', hash, '') end

-- The first due time of a schedule; huge if it is empty.
local function first_due(schedule)
  local first = redis.call('ZRANGE', schedule, 0, 0, 'WITHSCORES')
  return first[2] and tonumber(first[2]) or math.huge
end

-- The same for the reply of a claim: -1 if the schedule is empty, and never 0.
local function next_due(schedule)
  local due = first_due(schedule)
  return due == math.huge and -1 or math.max(1, due)
end

-- Wakes the replicas that sleep until a shard's first due time, if there is an earlier
-- one.
local function wake(channel, shard, due)
  redis.call('PUBLISH', channel, shard .. ' ' .. format('%.0f', due))
end

-- The stamp of a change of a record, unix µs. Unlike a counter it never returns to an old
-- value, even after a failover that lost the latest changes. If the clock went back it is
-- still above every existing change: otherwise a replica that knows those would not see
-- this one.
local function change_stamp(changes)
  local t = redis.call('TIME')
  local newest = redis.call('ZREVRANGE', changes, 0, 0, 'WITHSCORES')
  return format('%.0f', math.max(tonumber(t[1]) * 1000000 + tonumber(t[2]), (tonumber(newest[2]) or 0) + 1))
end
