-- read: the next messages of a shard that the group has not read.
--
-- KEYS[1]  leases    HASH    group -> token|expiry|consumer
-- KEYS[2]  messages  STREAM
-- ARGV[1]  the group
-- ARGV[2]  the consumer
-- ARGV[3]  its token
-- ARGV[4]  for how many ms a lease lives
-- ARGV[5]  how many messages at most; 0 only renews the lease
-- ARGV[6]  after how many bytes of data to stop
-- ARGV[7]  1: return where the stream ends if there is nothing to read
--
-- Returns now (unix ms), whether the lease is valid, whether more may wait, where the
-- stream ends or '', and position, account, kind, id, type, time, data and group of each
-- message.

local stream, group, consumer, now = KEYS[2], ARGV[1], ARGV[2], clock()
local left, room = tonumber(ARGV[5]), tonumber(ARGV[6])
if not holds(KEYS[1], group, ARGV[3], consumer, tonumber(ARGV[4]), now) then return { now, 0, 0, '' } end

local out, n = { now, 1, 0, '' }, 4
while left > 0 and room > 0 do
  local ask = math.min(left, 64) -- more could be too much if each is large
  local read = redis.call('XREADGROUP', 'GROUP', group, consumer, 'COUNT', ask, 'STREAMS', stream, '>')
  local entries = read and read[1] and read[1][2] or {}
  for _, e in ipairs(entries) do
    n = flatten(out, n, e[1], e[2])
    room = room - #out[n - 1]
  end
  left = left - #entries
  if #entries < ask then break end
  if left == 0 or room <= 0 then out[3] = 1 end
end
if n == 4 and ARGV[7] == '1' then out[4] = end_of(stream) end
return out
