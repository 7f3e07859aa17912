-- duty: take, renew or give up the work that one process does for all.
--
-- KEYS[1]  duties  STRING  its holder, with a time to live
-- ARGV[1]  the caller
-- ARGV[2]  for how many ms; 0 gives it up
--
-- Returns 1 if the caller has it now, otherwise 0.

local duties, who, ttl = KEYS[1], ARGV[1], tonumber(ARGV[2])

-- A duty that lasts longer than allowed is from before Redis' clock went back. Its holder
-- renews it, or is gone.
local holder = redis.call('GET', duties)
if holder and holder ~= who then
  if ttl <= 0 or redis.call('PTTL', duties) <= ttl then return 0 end
end
if ttl <= 0 then
  redis.call('DEL', duties)
  return 0
end
-- It is removed first: a full Redis refuses a script that begins with SET, and the
-- process on duty is the one that trims.
redis.call('DEL', duties)
redis.call('SET', duties, who, 'PX', ttl)
return 1
