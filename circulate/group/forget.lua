-- forget: remove the names of a group's other consumers in a shard. The holder of the
-- lease reads it alone, so the others are dead or elsewhere.
--
-- KEYS[1]  leases    HASH    group -> token|expiry|consumer
-- KEYS[2]  messages  STREAM
-- ARGV[1]  the group
-- ARGV[2]  the consumer
-- ARGV[3]  its token
-- ARGV[4]  for how many ms a lease lives
--
-- Returns whether the lease is held, and how many names were removed. A name
-- stays while something is pending under it.

local stream, group, consumer = KEYS[2], ARGV[1], ARGV[2]
if not holds(KEYS[1], group, ARGV[3], consumer, tonumber(ARGV[4]), clock()) then return { 0, 0 } end
local removed = 0
for _, info in ipairs(redis.call('XINFO', 'CONSUMERS', stream, group)) do
  for i = 1, #info, 2 do
    if info[i] == 'name' and info[i + 1] ~= consumer and forget(stream, group, info[i + 1]) then removed = removed + 1 end
  end
end
return { 1, removed }
