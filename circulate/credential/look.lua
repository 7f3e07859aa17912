-- look at a credential: what is known about it, without its value. It changes nothing.
--
-- KEYS[1]  credential  HASH  see take credential
-- KEYS[2]  pause       HASH
--
-- Returns now, unix ms, then 1 if there is a value, otherwise 0; of the credential
-- version, expires, refresh, lease, refused, failed and reason; and of the pause until
-- and reason. '' means unknown. If nothing at all is known, it returns only now.

local wrong = mistyped(KEYS[1], 'hash', KEYS[2], 'hash')
if wrong then return wrong end

local now = format('%.0f', clock())
if redis.call('EXISTS', KEYS[1], KEYS[2]) == 0 then return { now } end
local answer = { now, tostring(redis.call('HEXISTS', KEYS[1], 'value')) }
for _, v in ipairs(redis.call('HMGET', KEYS[1], 'version', 'expires', 'refresh', 'lease', 'refused', 'failed', 'reason')) do
  answer[#answer + 1] = v or ''
end
for _, v in ipairs(redis.call('HMGET', KEYS[2], 'until', 'reason')) do answer[#answer + 1] = v or '' end
return answer
