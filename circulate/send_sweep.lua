-- sweep send: end what ends by itself.
--
-- KEYS[1…8]  the outbox: see sends.lua
-- ARGV[1]   how much of it to look at, at most
-- ARGV[2]   how long an attempt may last whose replica is dead, ms
-- ARGV[3…]  the replicas that are alive
--
-- A queued send expires. An attempt that lasted too long is unknown, and so is one of a
-- replica that is dead. Ended sends, idempotency keys and windows are forgotten.
--
-- Returns {how much it looked at; how many expired; ids that became unknown}.

local box = outbox(1)
local wrong = outbox_mistyped(box)
if wrong then return wrong end

even_when_full(box.sends)
local now, expired, unknown = clock(), 0, {}
local over = redis.call('ZRANGEBYSCORE', box.ends, '-inf', now, 'LIMIT', 0, ARGV[1])
for _, member in ipairs(over) do
  local what = sub(member, 1, 1)
  redis.call('ZREM', box.ends, member)
  if what == 'k' then
    redis.call('HDEL', box.names, 'k' .. sub(member, -SEND_ID))
    redis.call('ZREM', box.index, member)
    tally(box, 'k', string.match(member, '^k([^%z]*)'), -1)
  elseif what == 'r' then
    redis.call('HDEL', box.names, member)
  elseif what == 'w' then
    redis.call('HDEL', box.windows, sub(member, 2))
    redis.call('ZREM', box.index, member)
    tally(box, 'w', string.match(member, '^w([^%z]*)'), -1)
  else
    local s = get_send(box, member)
    if not s then
      -- it is gone
    elseif s.state == 'q' then
      end_expired(box, member, s, now)
      expired = expired + 1
    elseif s.state == 'a' then
      end_unknown(box, member, s, now)
      unknown[#unknown + 1] = member
    elseif s.state ~= 'u' then
      drop_send(box, member, s)
    end
  end
end
local alive = {}
for a = 3, #ARGV do alive[ARGV[a]] = true end
for _, member in ipairs(redis.call('ZRANGEBYLEX', box.index, '[a', '(b')) do
  local id = sub(member, -SEND_ID)
  local s = get_send(box, id)
  if s and s.state == 'a' and not alive[s.replica] and tonumber(s.since) + tonumber(ARGV[2]) <= now then
    end_unknown(box, id, s, now)
    unknown[#unknown + 1] = id
  end
end
return {#over, expired, unknown}
