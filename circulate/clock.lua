-- clock: store the newest time seen in a shard. Notice when Redis' clock went back behind
-- it, or went on by more than it can between two looks.
--
-- KEYS[1]  clock  HASH  newest: unix ms; gap: when there last was one and how long, unix ms|ms
-- ARGV[1]  by how many ms it may go back unnoticed
-- ARGV[2]  the newest time to forget, because everything due by it has been rescheduled;
--          '' = none
-- ARGV[3]  for how many ms a lack of looks is no gap
-- ARGV[4]  for how many ms a gap is remembered
--
-- Returns {now, the newest time seen if the clock went back behind it, otherwise 0, when
-- a gap ended, how long it was}; the last two are 0 if no gap is remembered. The newest
-- time stays until it is forgotten, so that every caller learns of it.

local had = redis.call('HMGET', KEYS[1], 'newest', 'gap')
local now, kept = clock(), had[1]
local newest = tonumber(kept or '') or 0
local ended, long = string.match(had[2] or '', '^(%d+)|(%d+)$')
ended, long = tonumber(ended or '0'), tonumber(long or '0')
local function keep_gap()
  even_when_full(KEYS[1])
  redis.call('HSET', KEYS[1], 'gap', format('%.0f', ended) .. '|' .. format('%.0f', long))
end

if ended > now then -- the clock was ahead then, and has been put right
  ended = now
  keep_gap()
end
if now - ended >= tonumber(ARGV[4]) then ended, long = 0, 0 end
if newest > now + tonumber(ARGV[1]) and kept ~= ARGV[2] then return {now, newest, ended, long} end
if newest > 0 and now - newest >= tonumber(ARGV[3]) then
  if now - newest >= long then
    ended, long = now, now - newest
    keep_gap()
  end
end
if newest < now or kept == ARGV[2] then
  even_when_full(KEYS[1])
  redis.call('HSET', KEYS[1], 'newest', format('%.0f', now))
end
return {now, 0, ended, long}
