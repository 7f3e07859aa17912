-- put term: store a document until a time, in place of the one before.
--
-- KEYS[1]  terms  HASH  name -> when it ends, unix ms|the text
-- ARGV[1]  name
-- ARGV[2]  when it ends, unix ms
-- ARGV[3]  text
-- ARGV[4]  the most documents that there may be
--
-- Returns 1, or -1 if there are too many and none has ended. Ended ones are removed, and
-- the key expires with the last one.

local wrong = mistyped(KEYS[1], 'hash')
if wrong then return wrong end

local now, last, count = clock(), tonumber(ARGV[2]), 0
local all = redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  local ends = tonumber((string.match(all[i + 1], '^(%d+)|'))) or 0
  if ends <= now then
    redis.call('HDEL', KEYS[1], all[i])
  elseif all[i] ~= ARGV[1] then
    count = count + 1
    last = math.max(last, ends)
  end
end
if count >= tonumber(ARGV[4]) then return -1 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2] .. '|' .. ARGV[3])
redis.call('PEXPIREAT', KEYS[1], format('%.0f', last))
return 1
