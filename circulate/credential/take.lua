-- take credential: return what is known about it, and perhaps the task of fetching it.
--
-- KEYS[1]  credential  HASH  value, version, refresh, expires: of what was fetched;
--                            fence, lease: who fetches it, until when;
--                            refused, failed, reason: until when nobody tries, and why;
--                            dropped: when a value was; seen: when it was last
--                            written. Times are unix ms
-- KEYS[2]  pause       HASH  until, seen, unix ms; step; reason
-- ARGV[1]  for how many ms the task is given
--
-- Returns value, version, ms until it expires, fence or 0, ms that another caller may
-- still be fetching it, ms refused, ms failed, reason, ms paused, reason.

local wrong = mistyped(KEYS[1], 'hash', KEYS[2], 'hash')
if wrong then return wrong end

local LINGER = 3600000 -- a credential that nobody asks for is forgotten after this
local ttl, now = tonumber(ARGV[1]), clock()
rewind(KEYS[1], TIMES, now)
rewind(KEYS[2], PAUSED, now)
local function left(at) return math.max(0, (tonumber(at) or 0) - now) end

local p = redis.call('HMGET', KEYS[2], 'until', 'reason')
local c = redis.call('HMGET', KEYS[1], 'value', 'version', 'expires', 'refresh', 'fence', 'lease', 'refused', 'failed', 'reason')
local paused, expires, wait, refused, failed = left(p[1]), left(c[3]), left(c[6]), left(c[7]), left(c[8])
local fence = 0
if paused == 0 and wait == 0 and refused == 0 and failed == 0 and (expires == 0 or left(c[4]) == 0) then
  -- If the last fence was forgotten, the next one is still above it: fences are never
  -- behind the clock.
  fence = math.max((tonumber(c[5]) or 0) + 1, now)
  redis.call('HSET', KEYS[1], 'fence', format('%.0f', fence), 'lease', format('%.0f', now + ttl), 'seen', format('%.0f', now))
  redis.call('PEXPIRE', KEYS[1], math.max(expires, ttl) + LINGER)
end
return { expires > 0 and c[1] or '', tonumber(c[2]) or 0, expires, fence, wait, refused, failed,
  (refused > 0 or failed > 0) and c[9] or '', paused, paused > 0 and p[2] or '' }
