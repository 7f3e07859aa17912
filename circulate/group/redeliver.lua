-- redeliver: take over pending messages from any consumer, and count the delivery.
--
-- KEYS[1]  leases    HASH    group -> token|expiry|consumer
-- KEYS[2]  messages  STREAM
-- ARGV[1]  the group
-- ARGV[2]  the consumer
-- ARGV[3]  its token
-- ARGV[4]  for how many ms a lease lives
-- ARGV[5]  after how many bytes of data to stop; 0: set the counts of deliveries, and return no
--          message
-- then for each message: its position, and which delivery this is
--
-- Returns now (unix ms), whether the lease is valid, how many of the messages it went
-- through, and position, account, kind, id, type, time, data and group of the messages
-- that are still pending. A trimmed message is not returned and stops being pending.

local stream, group, consumer, now = KEYS[2], ARGV[1], ARGV[2], clock()
local room, only_counts = tonumber(ARGV[5]), ARGV[5] == '0'
if not holds(KEYS[1], group, ARGV[3], consumer, tonumber(ARGV[4]), now) then return { now, 0, 0 } end
local out, n = { now, 1, 0 }, 3
for a = 6, #ARGV, 2 do
  local position = ARGV[a]
  if only_counts then
    redis.call('XCLAIM', stream, group, consumer, 0, position, 'RETRYCOUNT', ARGV[a + 1], 'JUSTID')
  elseif room > 0 then
    local claimed = redis.call('XCLAIM', stream, group, consumer, 0, position, 'RETRYCOUNT', ARGV[a + 1])[1]
    if claimed then
      n = flatten(out, n, position, claimed[2])
      room = room - #out[n - 1]
    else
      redis.call('XACK', stream, group, position)
    end
  else
    break
  end
  out[3] = out[3] + 1
end
return out
