-- finish: checks that a limit let start have ended, or did not start after all.
--
-- KEYS[1]  the limit's state   HASH
-- KEYS[2]  the limit's leases  ZSET  check id -> expiry, unix ms
-- ARGV[1]  for how many ms a lease lives
-- ARGV[2]  the emission interval, µs; 0 = no rate
-- ARGV[3]  whether the limit has leases: 1 or 0
-- ARGV[4]  when the checks got permission, unix µs, if none of them started; otherwise 0
-- then the check ids
--
-- Returns how many leases were still there.

local state, leases = KEYS[1], KEYS[2]
local lease, every, leased, refunded = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3] == '1', tonumber(ARGV[4])

local wrong, there = mistyped(state, 'hash', leases, 'zset')
if wrong then return wrong end

local t = redis.call('TIME')
local now = tonumber(t[1]) * 1000000 + tonumber(t[2])
local known = redis.call('HMGET', state, 'tat', 'hold')
local tat, hold = tonumber(known[1] or 0) or 0, tonumber(known[2] or '')

local left, ended = 0, {}
for a = 5, #ARGV do
  local expiry = leased and redis.call('ZSCORE', leases, ARGV[a])
  if expiry then
    left = left + 1
    ended[left] = ARGV[a]
    local took = math.max(0, now - (tonumber(expiry) - lease) * 1000)
    hold = hold and hold + (took - hold) / 8 or took
  end
end
even_when_full(state)
-- A limit whose state is gone owes nothing.
if there[state] then
  if refunded == 0 then
    if hold then redis.call('HSET', state, 'hold', format('%.0f', hold)) end
  elseif every > 0 then
    -- The time since then has already refunded as much.
    local back = math.max(0, every * (leased and left or #ARGV - 4) - math.max(0, now - refunded))
    redis.call('HSET', state, 'tat', format('%.0f', math.max(math.min(tat, now), tat - back)))
  end
end
if left > 0 then redis.call('ZREM', leases, unpack(ended)) end
return left
