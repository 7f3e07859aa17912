-- lines of a timeline: shared by the scripts that write them; it comes after entry.lua.
--
-- A line is written by the step that it is about, after everything else, and never makes
-- a step fail: the reply of XADD is ignored. Two streams have the lines of a shard.
-- Routine events of healthy accounts go to the second one, and so do the events of an
-- account that fails and recovers again and again. So they do not push out anything else.

local ROUTINE = {nudged = true, hindered = true, repeated = true}

-- Writes a line. Kept is a text of two numbers, the most lines of each stream, or '' if
-- there is no timeline.
local function tell(streams, kept, id, event, n, text, routine)
  local most, least = string.match(kept, '^(%d+) (%d+)$')
  if not most then return end
  local which = (routine or ROUTINE[event]) and 2 or 1
  redis.pcall('XADD', streams[which], 'MAXLEN', '~', which == 1 and most or least, '*',
    'account', id, 'event', event, 'n', n, 'text', sub(text, 1, 240))
end

-- Writes lines for checks that found messages, given as pairs of id and number. Eight
-- accounts share an entry, so that finding costs little.
local function tell_finds(stream, kept, finds)
  local least = string.match(kept, ' (%d+)$')
  for from = 1, #finds, 16 do
    redis.pcall('XADD', stream, 'MAXLEN', '~', least, '*', 'event', 'found', unpack(finds, from, math.min(from + 15, #finds)))
  end
end
