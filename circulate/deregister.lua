-- deregister: remove an account for good. Its travelling entries have no ticket any more,
-- and the steps that meet them drop them.
--
-- KEYS[1]  changes  ZSET  id -> when its record changed, unix µs
-- KEYS[2]  tickets  HASH
-- KEYS[3]  schedule  ZSET
-- KEYS[4]  parked  ZSET
-- KEYS[5], KEYS[6]  timeline  STREAMs
-- KEYS[7…14]  the outbox: see sends.lua
-- KEYS[15] accounts  HASH  id -> record
-- KEYS[16…] every other HASH that has a field for each account
-- then two for each account: known:ID and known_before:ID  SETs
-- ARGV[1]  how many lines timelines keep, as tell takes it
-- ARGV[2]  1 or 2: how many arguments each account has
-- then of each its id, and the record that it must have now; without the second any
-- record will do
--
-- Returns how many were registered and had that record.

local wrong = mistyped(KEYS[1], 'zset', KEYS[2], 'hash', KEYS[3], 'zset', KEYS[4], 'zset')
local FIELDS, box = 15, outbox(7)
local each, ids, known = tonumber(ARGV[2]), {}, {}
local last = #KEYS - 2 * (#ARGV - 2) / each
for k = FIELDS, last do wrong = wrong or mistyped(KEYS[k], 'hash') end
wrong = wrong or outbox_mistyped(box)
if wrong then return wrong end

for a = 3, #ARGV, each do
  if each == 1 or (redis.call('HGET', KEYS[FIELDS], ARGV[a]) or '') == ARGV[a + 1] then
    ids[#ids + 1] = ARGV[a]
    local k = last + 2 * (a - 3) / each
    known[#known + 1], known[#known + 2] = KEYS[k + 1], KEYS[k + 2]
  end
end
if #ids == 0 then return 0 end

even_when_full(KEYS[2])
-- The change is written first: a script that stops half way may leave behind what it
-- adds, but must not remove too early.
for _, id in ipairs(ids) do redis.call('ZADD', KEYS[1], change_stamp(KEYS[1]), id) end
redis.call('ZREMRANGEBYRANK', KEYS[1], 0, -1025)
local there = ARGV[1] ~= '' and redis.call('HMGET', KEYS[2], unpack(ids)) or {}
local gone = redis.call('HDEL', KEYS[2], unpack(ids))
redis.call('ZREM', KEYS[3], unpack(ids))
redis.call('ZREM', KEYS[4], unpack(ids))
for k = FIELDS, last do redis.call('HDEL', KEYS[k], unpack(ids)) end
redis.call('UNLINK', unpack(known))
-- What waits is not sent any more.
if redis.call('EXISTS', box.index) == 1 then
  -- shared here
  for _, id in ipairs(ids) do forget_sends(box, id) end
end
-- The next account with this id must not show lines of this one.
for i, id in ipairs(ids) do
  if there[i] then tell({KEYS[5], KEYS[6]}, ARGV[1], id, 'deregistered', 0, '') end
end
return gone
