-- withdraw send: queue again what a step of Attempt took whose reply its replica never
-- read, so that no byte of it has left.
--
-- KEYS[1…8]  the outbox: see sends.lua
-- ARGV[1]   the replica
-- ARGV[2]   its name for that step
-- ARGV[3]   for how long a step that comes only now takes nothing, ms
--
-- Returns how many it queued again, each at its old place.

local box = outbox(1)
local wrong = outbox_mistyped(box)
if wrong then return wrong end

even_when_full(box.sends)
local now, n = clock(), 0
-- The step may still be on its way to Redis.
redis.call('HSET', box.names, 'r' .. ARGV[2], '')
redis.call('ZADD', box.ends, now + tonumber(ARGV[3]), 'r' .. ARGV[2])
for _, member in ipairs(redis.call('ZRANGEBYLEX', box.index, '[a', '(b')) do
  local id = sub(member, -SEND_ID)
  local s = get_send(box, id)
  if s and s.replica == ARGV[1] and s.request == ARGV[2] then
    uncount(box, s, now)
    s.attempts = format('%d', tonumber(s.attempts) - 1)
    queue_again(box, id, s, now)
    n = n + 1
  end
end
return n
