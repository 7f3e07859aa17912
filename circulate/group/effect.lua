-- effect: apply messages and acknowledge them, in one step. It comes after the user's
-- function effect(message, KEYS, ARGV).
--
-- KEYS[1]  messages  STREAM
-- KEYS[2]  applied   ZSET    account NUL id -> until when it is remembered, unix ms
-- then the user's keys
-- ARGV[1]  the group
-- ARGV[2]  for how many ms to remember what was applied; 0 = not at all
-- ARGV[3]  n, how many messages, in the stream's order
-- ARGV[4]  how many arguments the user has
-- then n times: position, account, kind, id, type, time, data
-- then the user's arguments
--
-- Returns a text of n letters and the errors of the failed messages, in order:
--   1  applied and acknowledged
--   0  not pending: it was applied before, or is not the group's
--   2  remembered as applied: acknowledged
--   e  the effect failed; not acknowledged
--   h  an earlier message of the account failed; not acknowledged
--
-- Nothing is acknowledged before the effect: Lua cannot roll back, and an effect that
-- fails must leave its message pending. XACK answers 1 at the end because the message is
-- pending now and nothing else runs in between.

local stream, applied, group = KEYS[1], KEYS[2], ARGV[1]
local memory, n, own, now = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), clock()
if memory > 0 then
  local wrong = mistyped(applied, 'zset')
  if wrong then return wrong end
end

local keys, args, positions = {}, {}, {}
for i = 3, #KEYS do keys[i - 2] = KEYS[i] end
for i = 1, own do args[i] = ARGV[4 + 7 * n + i] end
for i = 1, n do positions[i] = ARGV[7 * i - 2] end

local pending = pending_of(stream, group, positions)
-- A full Redis would make each effect fail, and its message a dead letter, although it
-- can be trimmed once it is applied. This acknowledges nothing, but is a write.
redis.call('XACK', stream, group, '0-0')
local verdict, failed, done, out = {}, {}, {}, { '' }
local message = {} -- one table for all: one for each message would cost more than everything else here
for i = 1, n do
  local a = 7 * i - 2
  local position, account = ARGV[a], ARGV[a + 1]
  local name = memory > 0 and account .. '\0' .. ARGV[a + 3]
  if not pending[position] then
    verdict[i] = '0'
  elseif failed[account] then
    verdict[i] = 'h'
  elseif name and (tonumber(redis.call('ZSCORE', applied, name) or 0) or 0) > now then
    verdict[i] = '2'
    done[#done + 1] = position
  else
    message.position, message.account, message.kind, message.id = position, account, ARGV[a + 2], ARGV[a + 3]
    message.type, message.time, message.data = ARGV[a + 4], ARGV[a + 5], ARGV[a + 6]
    local ok, err = pcall(effect, message, keys, args)
    if ok then
      verdict[i] = '1'
      done[#done + 1] = position
      if name then redis.call('ZADD', applied, now + memory, name) end
    else
      verdict[i], failed[account] = 'e', true
      out[#out + 1] = tostring(type(err) == 'table' and err.err or err)
    end
  end
end
if #done > 0 then redis.call('XACK', stream, group, unpack(done)) end
if memory > 0 and #done > 0 then
  -- This removes more ids than were added, so that no expired ones stay.
  local past = redis.call('ZRANGEBYSCORE', applied, '-inf', now, 'LIMIT', 0, 2 * n)
  if #past > 0 then redis.call('ZREM', applied, unpack(past)) end
  redis.call('PEXPIRE', applied, memory)
end
out[1] = table.concat(verdict)
return out
