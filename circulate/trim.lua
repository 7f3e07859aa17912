-- trim: drop the oldest messages of a stream that has too many, except messages that a
-- consumer group has not read or not acknowledged.
--
-- KEYS[1]  messages  STREAM
-- ARGV[1]  how many messages may stay
-- ARGV[2]  the most to drop
--
-- Returns how many were dropped, whether there are still too many, and whether a group
-- needs the rest.

local wrong = mistyped(KEYS[1], 'stream')
if wrong then return wrong end

local stream, most, left = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2])
local excess = redis.call('XLEN', stream) - most
if excess <= 0 then return { 0, 0, 0 } end

local function parts(position)
  local ms, seq = string.match(position, '^(%d+)%-?(%d*)$')
  return tonumber(ms), tonumber(seq) or 0
end

-- The first position that some group may still need, if there is a group.
local first, firstSeq
for _, info in ipairs(redis.call('XINFO', 'GROUPS', stream)) do
  local fields = {}
  for i = 1, #info, 2 do fields[info[i]] = info[i + 1] end
  local ms, seq = parts(fields['last-delivered-id'])
  seq = seq + 1 -- that one has been read
  local lowest = redis.call('XPENDING', stream, fields.name)[2]
  if lowest then
    local pendingMs, pendingSeq = parts(lowest)
    if pendingMs < ms or pendingMs == ms and pendingSeq < seq then ms, seq = pendingMs, pendingSeq end
  end
  if not first or ms < first or ms == first and seq < firstSeq then first, firstSeq = ms, seq end
end

left = math.min(left, excess)
if not first then
  local dropped = redis.call('XTRIM', stream, 'MAXLEN', most + excess - left)
  return { dropped, excess > dropped and 1 or 0, 0 }
end

-- Only reading them shows which messages are the oldest, so this reads a few at a time.
local dropped = 0
while left > 0 do
  local oldest = redis.call('XRANGE', stream, '-', '+', 'COUNT', math.min(left, 64))
  local free = 0
  for i, e in ipairs(oldest) do
    local ms, seq = parts(e[1])
    if ms > first or ms == first and seq >= firstSeq then break end
    free = i
  end
  if free > 0 then
    redis.call('XTRIM', stream, 'MAXLEN', most + excess - dropped - free)
    dropped, left = dropped + free, left - free
  end
  if free < #oldest or #oldest == 0 then return { dropped, 1, 1 } end
end
return { dropped, excess > dropped and 1 or 0, 0 }
