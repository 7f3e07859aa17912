-- carry: put a dead letter of an old shard behind those of the shard that its account
-- goes to, once.
--
-- KEYS[1]  dead      STREAM
-- KEYS[2]  carried   HASH  old shard -> position of the last dead letter that came
-- KEYS[3]  arrivals  SET   ids that have arrived; '' always
-- ARGV[1]  the old shard
-- ARGV[2]  the dead letter's position there
-- ARGV[3…] its fields
--
-- Returns 1 where it came, 0 where it had come before, -1 where the shard takes none
-- from others: it never did, or has taken all there were.

local dead, carried, arrivals, source, position = KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2]
local wrong = mistyped(dead, 'stream', carried, 'hash', arrivals, 'set')
if wrong then return wrong end
if redis.call('EXISTS', arrivals) == 0 then return -1 end

local function parts(text)
  local ms, seq = string.match(text, '^(%d+)%-(%d+)$')
  return tonumber(ms), tonumber(seq)
end

-- They come in the order of their positions. So what is not behind the last one has
-- come, whoever repeats it and whenever.
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
