-- carry: append a dead letter of an old shard, once, to the dead letters of its account's
-- new shard.
--
-- KEYS[1]  dead      STREAM
-- KEYS[2]  carried   HASH  old shard -> position of the last dead letter that arrived
-- KEYS[3]  arrivals  SET   ids that have arrived; '' always
-- ARGV[1]  the old shard
-- ARGV[2]  the dead letter's position there
-- ARGV[3…] its fields
--
-- Returns 1 if it arrived, 0 if it had arrived before, -1 if the shard accepts none from
-- others, because it never did or no longer does.

local dead, carried, arrivals, source, position = KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2]
local wrong = mistyped(dead, 'stream', carried, 'hash', arrivals, 'set')
if wrong then return wrong end
if redis.call('EXISTS', arrivals) == 0 then return -1 end

local function parts(text)
  local ms, seq = string.match(text, '^(%d+)%-(%d+)$')
  return tonumber(ms), tonumber(seq)
end

-- They arrive in the order of their positions. So a letter that is not after the last one
-- has arrived already, however late it is repeated.
local last = redis.call('HGET', carried, source)
if last then
  local ms, seq = parts(position)
  local lastMs, lastSeq = parts(last)
  if ms < lastMs or ms == lastMs and seq <= lastSeq then return 0 end
end
even_when_full(carried)
redis.call('XADD', dead, '*', unpack(ARGV, 3))
redis.call('HSET', carried, source, position)
return 1
