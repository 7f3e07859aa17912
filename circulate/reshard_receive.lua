-- receive: have a shard accept accounts from other shards from now on. A shard that has
-- accepted all of them never does so again.
--
-- KEYS[1]  arrivals    SET
-- KEYS[2]  ticket_seq  STRING
-- KEYS[3]  messages    STREAM
-- KEYS[4]  tickets     HASH
-- KEYS[5]  ticket_mark STRING
-- ARGV     consumer groups, which read everything that will be found in the shard
--
-- Returns 1 if it does now, 0 if it did so before.

local wrong = mistyped(KEYS[1], 'set', KEYS[2], 'string', KEYS[3], 'stream', KEYS[4], 'hash')
if wrong then return wrong end

even_when_full(KEYS[4])
if redis.call('EXISTS', KEYS[1]) == 0 then
  if redis.call('EXISTS', KEYS[2]) == 1 then return 0 end
  redis.call('SADD', KEYS[1], '')
  take_ticket({KEYS[2], KEYS[5]}, clock())
end
for _, group in ipairs(ARGV) do
  local made = redis.pcall('XGROUP', 'CREATE', KEYS[3], group, '0-0', 'MKSTREAM')
  if made.err and not string.find(made.err, 'BUSYGROUP', 1, true) then return made end
end
return 1
