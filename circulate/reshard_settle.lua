-- settle: accounts have arrived. Copies stay for a while, because the new shard may still
-- lose them: a server's last writes do not survive every crash.
--
-- KEYS[1]  departures  HASH  generation.target:number -> accounts
-- KEYS[2]  departed    HASH  generation.target:number -> when|accounts
-- ARGV     fields
--
-- Returns how many batches had not been settled.

local wrong = mistyped(KEYS[1], 'hash', KEYS[2], 'hash')
if wrong then return wrong end

even_when_full(KEYS[1])
local now, n = clock(), 0
for _, field in ipairs(ARGV) do
  local accounts = redis.call('HGET', KEYS[1], field)
  if accounts then
    redis.call('HSET', KEYS[2], field, stamp(now) .. '|' .. accounts)
    redis.call('HDEL', KEYS[1], field)
    n = n + 1
  end
end
return n
