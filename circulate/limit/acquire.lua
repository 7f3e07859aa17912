-- acquire: ask one limit whether checks may start now, or else when.
--
-- KEYS[1]  the limit's state   HASH
-- KEYS[2]  the limit's leases  ZSET  check id, or @ and account -> expiry, unix ms
-- KEYS[3]  the connected accounts  ZSET  @ and account -> expiry, unix ms
-- ARGV[1]  the emission interval, µs; 0 = no rate
-- ARGV[2]  the burst
-- ARGV[3]  how many may run at once; 0 = any number
-- ARGV[4]  for how many ms a lease lives
-- ARGV[5]  how late checks come back after a promised time, µs
-- then, two for each that asks: its check id; what it was promised, unix ms, or 0
--
-- Returns the time now, unix µs, then for each 0 if it may start, or when it may, unix
-- ms.

local state, leases, connected = KEYS[1], KEYS[2], KEYS[3]
local every, burst, concurrency = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local lease, jitter = tonumber(ARGV[4]), tonumber(ARGV[5])

local FIRST_HOLD = 200000  -- µs; how long leases are assumed to last, until one has ended
local LEAST_HOLD = 1000    -- µs; a line must move on
local MEMORY = 3600000     -- ms; how long a concurrency limit remembers its state
local MOST_PACE = 4

local wrong = mistyped(state, 'hash', leases, 'zset', connected, 'zset')
if wrong then return wrong end

local t = redis.call('TIME')
local now = tonumber(t[1]) * 1000000 + tonumber(t[2])
local known = redis.call('HMGET', state, 'tat', 'line', 'front', 'hold', 'pace', 'shape', 'seen')
local function number(i, otherwise) return known[i] and tonumber(known[i]) or otherwise end

-- A limit never owes more than a whole burst. More may be left over by a larger limit or
-- a clock that went back; it does not count.
local tolerance = every * (burst - 1)
local tat = math.min(number(1, 0), now + tolerance + every)
local line, front = number(2, 0), number(3, 0)
local hold, pace = math.max(LEAST_HOLD, number(4, FIRST_HOLD)), number(5, 1)
-- The slots of a line belong to the limit as it was then: a changed limit begins a new
-- line.
local shape = ARGV[1] .. ' ' .. ARGV[2] .. ' ' .. ARGV[3]
if known[6] ~= shape then line, front, pace = 0, 0, 1 end

-- If the limit was last asked in the future, the clock went back: promises and leases
-- move back by as much.
local ahead = number(7, 0) - now
if ahead > 1000000 then
  line, front = line - ahead, front - ahead
  for _ = 1, 100 do
    local long = redis.call('ZRANGEBYSCORE', leases, '(' .. format('%.0f', math.ceil(now / 1000) + lease), '+inf', 'WITHSCORES', 'LIMIT', 0, 1000)
    if #long == 0 then break end
    for i = 1, #long, 2 do
      redis.call('ZADD', leases, math.min(math.ceil(now / 1000) + lease, math.floor(tonumber(long[i + 1]) - ahead / 1000)), long[i])
    end
  end
end

local held, turning = 0, concurrency -- turning: leases that checks share
if concurrency > 0 then
  redis.call('ZREMRANGEBYSCORE', leases, '-inf', math.floor(now / 1000))
  held = redis.call('ZCARD', leases)
  turning = math.max(1, concurrency - redis.call('ZCOUNT', connected, '(' .. format('%.0f', math.floor(now / 1000)), '+inf'))
end

-- How long after one lease the next one ends, at the current pace.
local function turnover() return concurrency > 0 and pace * hold / turning or 0 end

-- The distance of slots.
local function step()
  local apart = every > 0 and every + math.max(0, jitter - tolerance) or 0
  return math.max(apart, turnover())
end

local answers, granted = {now}, {}
local expiry = math.ceil(now / 1000) + lease
for a = 6, #ARGV, 2 do
  local promised = (tonumber(ARGV[a + 1]) or 0) * 1000
  local last = math.max(line, front)
  local at
  if promised > now + jitter and promised <= last + 1000 then
    at = tonumber(ARGV[a + 1]) -- it came early and retains its slot
  else
    local returns = promised > 0 and promised <= now + jitter
    local full = concurrency > 0 and held >= concurrency
    local early = every > 0 and now < tat - tolerance
    if (returns or last <= now) and not full and not early then
      at = 0
      if every > 0 then tat = math.max(now, tat) + every end
      if concurrency > 0 then
        held = held + 1
        granted[#granted + 1] = expiry
        granted[#granted + 1] = ARGV[a]
        if returns then pace = pace - (pace - 1) / 8 end
      end
    else
      local first = early and tat - tolerance or now
      if full then first = math.max(first, now + turnover()) end
      if returns and now - promised <= math.max(2000000, 2 * step()) then
        if full then pace = math.min(MOST_PACE, pace + 1 / 32) end
        at = math.max(front, first)
        front = at + step()
      else
        at = math.max(last, first)
        line = at + step()
      end
      at = math.ceil(at / 1000)
    end
  end
  answers[#answers + 1] = at
end

if #granted > 0 then redis.call('ZADD', leases, unpack(granted)) end
if concurrency > 0 then
  local longest = redis.call('ZREVRANGE', leases, 0, 0, 'WITHSCORES')
  if longest[2] then redis.call('PEXPIREAT', leases, format('%.0f', tonumber(longest[2]) + 1)) end
end
redis.call('HSET', state, 'tat', format('%.0f', tat), 'line', format('%.0f', line), 'front', format('%.0f', front),
  'pace', format('%.4f', pace), 'shape', shape, 'seen', format('%.0f', now))
local left = math.ceil((math.max(tat, line, front) - now) / 1000)
redis.call('PEXPIRE', state, format('%.0f', math.max(0, left) + (concurrency > 0 and MEMORY or 1000)))
return answers
