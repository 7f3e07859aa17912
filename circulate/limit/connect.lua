-- connect: ask one limit which accounts may stay connected.
--
-- KEYS[1]  the limit's leases       ZSET  check id, or @ and account -> expiry, unix ms
-- KEYS[2]  the connected accounts   ZSET  @ and account -> expiry, unix ms; the leases have each of them too
-- ARGV[1]  how many leases there may be
-- ARGV[2]  how many accounts may be connected
-- ARGV[3]  for how many ms an account counts as connected
-- then the accounts
--
-- Returns for each account 1 if it may, or 0.

local leases, connected = KEYS[1], KEYS[2]
local concurrency, most, life = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])

local wrong = mistyped(leases, 'zset', connected, 'zset')
if wrong then return wrong end

local now = clock()
redis.call('ZREMRANGEBYSCORE', leases, '-inf', now)
redis.call('ZREMRANGEBYSCORE', connected, '-inf', now)
-- What lasts longer than it can was written before the clock went back.
local long = redis.call('ZRANGEBYSCORE', connected, '(' .. format('%.0f', now + life), '+inf', 'LIMIT', 0, 1000)
for _, account in ipairs(long) do
  redis.call('ZADD', connected, now + life, account)
  redis.call('ZADD', leases, now + life, account)
end

local answers = {}
local held, there = redis.call('ZCARD', leases), redis.call('ZCARD', connected)
for a = 4, #ARGV do
  local account = '@' .. ARGV[a]
  local known = redis.call('ZSCORE', connected, account)
  if known and there > most then -- the limit has become lower
    redis.call('ZREM', connected, account)
    redis.call('ZREM', leases, account)
    held, there = held - 1, there - 1
    answers[#answers + 1] = 0
  elseif known or there < most and held < concurrency then
    redis.call('ZADD', connected, now + life, account)
    redis.call('ZADD', leases, now + life, account)
    if not known then held, there = held + 1, there + 1 end
    answers[#answers + 1] = 1
  else
    answers[#answers + 1] = 0
  end
end

redis.call('PEXPIRE', connected, format('%.0f', life))
local last = redis.call('ZREVRANGE', leases, 0, 0, 'WITHSCORES')
if last[2] then redis.call('PEXPIREAT', leases, format('%.0f', tonumber(last[2]) + 1)) end
return answers
