-- bury: put a message that cannot be handled into the dead-letter stream and
-- acknowledge it.
--
-- KEYS[1]  leases    HASH    group -> token|expiry|consumer
-- KEYS[2]  messages  STREAM
-- KEYS[3]  dead      STREAM
-- ARGV[1]  the group
-- ARGV[2]  the consumer
-- ARGV[3]  its token
-- ARGV[4]  for how many ms a lease lives
-- ARGV[5]  the position
-- ARGV[6]  how often it was delivered
-- ARGV[7]  what went wrong
--
-- Returns 'dead'; 'lost' if the lease is lost; 'gone' if the message was no longer
-- pending, or was trimmed.

local wrong = mistyped(KEYS[1], 'hash', KEYS[2], 'stream', KEYS[3], 'stream')
if wrong then return wrong end

local stream, dead, group, position = KEYS[2], KEYS[3], ARGV[1], ARGV[5]
if not holds(KEYS[1], group, ARGV[3], ARGV[2], tonumber(ARGV[4]), clock()) then return 'lost' end
if not redis.call('XPENDING', stream, group, position, position, 1)[1] then return 'gone' end
local entry = redis.call('XRANGE', stream, position, position)[1]
if entry then
  even_when_full(KEYS[1]) -- otherwise it would block the messages behind it for ever
  redis.call('XADD', dead, '*', 'for', group, 'error', ARGV[7], 'deliveries', ARGV[6], 'position', position, unpack(entry[2]))
end
redis.call('XACK', stream, group, position)
return entry and 'dead' or 'gone'
