-- put value: store a value under a name, in place of the one before.
--
-- KEYS[1]  values  HASH  name -> revision|when it was set, unix ms|the value
-- KEYS[2]  names   ZSET  name -> 0, for pages in the order of names
-- KEYS[3]  state   HASH  revision: the last one given; bytes: of all values, about
-- ARGV[1]  name
-- ARGV[2]  value
-- ARGV[3]  the revision that it must have, '0': there must be no value, '': any or none. With a
--          revision it retains its time.
-- ARGV[4]  how many values there may be
-- ARGV[5]  how many bytes they may have together
-- ARGV[6]  when it was set, unix ms, '': now
--
-- Returns {1, the revision before or 0, revision, when it was set}, or {0} if the
-- revision is another, or {-1} if there is no room.

local wrong = mistyped(KEYS[1], 'hash', KEYS[2], 'zset', KEYS[3], 'hash')
if wrong then return wrong end

local name, value, must = ARGV[1], ARGV[2], ARGV[3]
local old = redis.call('HGET', KEYS[1], name)
local before, at
if old then before, at = string.match(old, '^(%d+)|(%d+)|') end
if must ~= '' and (before or (not old and '0')) ~= must then return {0} end
local state = redis.call('HMGET', KEYS[3], 'revision', 'bytes')
local revision = (tonumber(state[1]) or 0) + 1
-- A value that outlived the state must not get a revision that it had before.
if tonumber(before) and revision <= tonumber(before) then revision = tonumber(before) + 1 end
local bytes = math.max(0, (tonumber(state[2]) or 0) - (old and #old or 0))
if not old and redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[4]) then return {-1} end
if ARGV[6] ~= '' then
  at = ARGV[6]
elseif must == '' or not at then
  at = format('%.0f', clock())
end
local text = format('%.0f', revision) .. '|' .. at .. '|' .. value
if bytes + #text > tonumber(ARGV[5]) and #text > (old and #old or 0) then return {-1} end
redis.call('HSET', KEYS[3], 'revision', format('%.0f', revision), 'bytes', format('%.0f', bytes + #text))
redis.call('ZADD', KEYS[2], 0, name)
redis.call('HSET', KEYS[1], name, text)
return {1, tonumber(before) or 0, revision, tonumber(at)}
