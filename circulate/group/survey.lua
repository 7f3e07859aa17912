-- survey: how far many groups have read in a shard, at once.
--
-- KEYS[1]  messages  STREAM
-- KEYS[2]  dead      STREAM
-- ARGV     the groups, 256 at most
--
-- Returns now (unix ms), how many dead letters the shard has, and of each group: how many
-- messages it has not read, or -1 if there is no such group, how many are pending, the
-- last position read, the first unread position and the first pending one ('' if there is
-- none).

local stream, now = KEYS[1], clock()
local dead = redis.call('XLEN', KEYS[2])
local found, wrong = groups_of(stream)
if wrong then return wrong end

-- The first message that each group has not read, if there is one.
local unread, positions = {}, {}
for _, group in ipairs(ARGV) do
  local fields = found[group]
  if fields and fields.lag ~= 0 then
    local first = redis.call('XRANGE', stream, '(' .. fields['last-delivered-id'], '+', 'COUNT', 1)[1]
    if first then unread[group], positions[#positions + 1] = first[1], first[1] end
  end
end
local counts, counted = count_from(stream, positions)

-- Corrects Redis' count of what a group has read, because Redis counts on from there.
local function set_right(group, fields, lag)
  if fields.lag == nil or fields.lag == lag then return end -- Redis does not count, or counts rightly
  local read, added = fields['entries-read'], nil
  if read and fields.lag then
    added = read + fields.lag
  else
    local info = redis.call('XINFO', 'STREAM', stream)
    for i = 1, #info, 2 do
      if info[i] == 'entries-added' then added = info[i + 1] end
    end
  end
  if added and read ~= added - lag then
    redis.pcall('XGROUP', 'SETID', stream, group, fields['last-delivered-id'], 'ENTRIESREAD', format('%d', added - lag))
  end
end

local out, n = { now, dead }, 2
for _, group in ipairs(ARGV) do
  local fields, first = found[group], unread[group]
  local lag, pending, last, oldest = -1, 0, '', ''
  if fields then
    lag, pending, last = 0, fields.pending, fields['last-delivered-id']
    if first then lag = lag_of(stream, fields, counts[first], counted) end
    if pending > 0 then oldest = redis.call('XPENDING', stream, group)[2] or '' end
    if not first or counts[first] then set_right(group, fields, lag) end
  end
  out[n + 1], out[n + 2], out[n + 3], out[n + 4], out[n + 5] = lag, pending, last, first or '', oldest
  n = n + 5
end
return out
