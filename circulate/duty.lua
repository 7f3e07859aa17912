-- duty: have, keep or give up what one process does for all.
--
-- KEYS[1]  duties  STRING  who has it, with a time to live
-- ARGV[1]  who asks
-- ARGV[2]  for how many ms; 0 gives it up
--
-- Returns 1 where the caller has it now, otherwise 0.

local duties, who, ttl = KEYS[1], ARGV[1], tonumber(ARGV[2])

-- A duty that lasts longer than it is given for is from before Redis' clock went back:
-- its holder renews it, or is gone.
local holder = redis.call('GET', duties)
if holder and holder ~= who then
  if ttl <= 0 or redis.call('PTTL', duties) <= ttl then return 0 end
end
if ttl <= 0 then
  redis.call('DEL', duties)
  return 0
end
-- Removed first: a full Redis refuses a script that begins with SET, and it is who is
-- on duty that trims.
redis.call('DEL', duties)
redis.call('SET', duties, who, 'PX', ttl)
return 1
