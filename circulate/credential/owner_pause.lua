-- pause owner: leave all of an owner's accounts alone for a while.
--
-- KEYS[1]  credential  HASH  not touched
-- KEYS[2]  pause       HASH  until, seen, unix ms; step; reason
-- ARGV[1]  why
-- ARGV[2]  for how many ms after the pause its step is remembered
-- ARGV[3]  and the following: the steps, in ms
--
-- Returns how many ms the owner is paused.

local wrong = mistyped(KEYS[2], 'hash')
if wrong then return wrong end

local memory, now = tonumber(ARGV[2]), clock()
rewind(KEYS[2], PAUSED, now)
local p = redis.call('HMGET', KEYS[2], 'until', 'step')
local till, step = tonumber(p[1]) or 0, tonumber(p[2]) or 0
if till > now then return till - now end

step = now - till > memory and 1 or math.min(step + 1, #ARGV - 2)
local ms = tonumber(ARGV[2 + step])
redis.call('HSET', KEYS[2], 'until', format('%.0f', now + ms), 'step', step, 'reason', ARGV[1], 'seen', format('%.0f', now))
redis.call('PEXPIRE', KEYS[2], ms + memory)
return ms
