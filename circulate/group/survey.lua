-- survey: how far many groups have read in a shard, at once.
--
-- KEYS[1]  messages  STREAM
-- KEYS[2]  dead      STREAM
-- ARGV     the groups, 256 at most
--
-- Returns now (unix ms), how many dead letters the shard has, and of each group:
-- how many messages it has not read, or -1 if there is no such group, how many
-- are pending, the last position read, the first that is unread and the first that
-- is pending ('' if there is none).

local stream, now = KEYS[1], clock()
local dead = redis.call('XLEN', KEYS[2])
local found, wrong = groups_of(stream)
if wrong then return wrong end

local out, n = { now, dead }, 2
for _, group in ipairs(ARGV) do
  local fields = found[group]
  local lag, pending, last, unread, oldest = -1, 0, '', '', ''
  if fields then
    lag, pending, last = 0, fields.pending, fields['last-delivered-id']
    if fields.lag ~= 0 then
      local first = redis.call('XRANGE', stream, '(' .. last, '+', 'COUNT', 1)[1]
      if first then
        -- If Redis lost count, the group has at most as many before it as there are.
        lag, unread = tonumber(fields.lag or '') or redis.call('XLEN', stream), first[1]
      end
    end
    if pending > 0 then oldest = redis.call('XPENDING', stream, group)[2] or '' end
  end
  out[n + 1], out[n + 2], out[n + 3], out[n + 4], out[n + 5] = lag, pending, last, unread, oldest
  n = n + 5
end
return out
