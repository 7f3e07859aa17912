-- lines of a timeline: what the scripts share that write them; it comes after entry.lua.
--
-- A line is written by the step that it is about, after everything else, and never makes a
-- step fail: what XADD answers is not looked at. Two streams have the lines of a shard. What
-- happens all the time to accounts that are well goes to the second one, and so does what an
-- account does that fails and recovers again and again: it pushes out nothing else.

local ROUTINE = {nudged = true, hindered = true}

-- Writes a line. Kept is a text of two numbers, how many lines each stream keeps, or '' if
-- there is no timeline.
local function tell(streams, kept, id, event, n, text, routine)
  local most, least = string.match(kept, '^(%d+) (%d+)$')
  if not most then return end
  local which = (routine or ROUTINE[event]) and 2 or 1
  redis.pcall('XADD', streams[which], 'MAXLEN', '~', which == 1 and most or least, '*',
    'account', id, 'event', event, 'n', n, 'text', sub(text, 1, 240))
end

-- Writes that checks found messages: pairs of an id and how many. Eight accounts share an
-- entry, so that finding costs little.
local function tell_finds(stream, kept, finds)
  local least = string.match(kept, ' (%d+)$')
  for from = 1, #finds, 16 do
    redis.pcall('XADD', stream, 'MAXLEN', '~', least, '*', 'event', 'found', unpack(finds, from, math.min(from + 15, #finds)))
  end
end
