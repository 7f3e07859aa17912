-- skip: put a message that an operator gives up on into the dead-letter stream,
-- whichever consumer reads the shard, and acknowledge it.
--
-- KEYS[1]  leases    HASH
-- KEYS[2]  messages  STREAM
-- KEYS[3]  dead      STREAM
-- ARGV[1]  the group
-- ARGV[2]  the position
-- ARGV[3]  the account that the message must belong to
-- ARGV[4]  why
--
-- Returns the dead letter's position; or '' if the message is no longer pending or was
-- trimmed.

local wrong = mistyped(KEYS[1], 'hash', KEYS[2], 'stream', KEYS[3], 'stream')
if wrong then return wrong end

local stream, dead, group, position = KEYS[2], KEYS[3], ARGV[1], ARGV[2]
local pending = redis.call('XPENDING', stream, group, position, position, 1)[1]
if not pending then return '' end
local entry, letter = redis.call('XRANGE', stream, position, position)[1], ''
if entry then
  -- The caller may know the shards by other numbers.
  local message = {}
  flatten(message, 0, position, entry[2])
  if message[2] ~= ARGV[3] then return '' end
  even_when_full(KEYS[1]) -- otherwise it would block the messages behind it for ever
  letter = redis.call('XADD', dead, '*', 'for', group, 'error', ARGV[4], 'deliveries', pending[4], 'position', position, unpack(entry[2]))
end
redis.call('XACK', stream, group, position)
return letter
