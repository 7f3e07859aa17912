-- list send: some sends of a shard, and write nothing.
--
-- KEYS[1…8]  the outbox: see sends.lua
-- ARGV[1], ARGV[2]  the range of the index, as ZRANGEBYLEX takes it
-- ARGV[3]   how many, at most
--
-- Returns pairs: member of the index, record or ''.

local box = outbox(1)
local wrong = outbox_mistyped(box)
if wrong then return wrong end

local answer = {}
for _, member in ipairs(redis.call('ZRANGEBYLEX', box.index, ARGV[1], ARGV[2], 'LIMIT', 0, ARGV[3])) do
  answer[#answer + 1] = member
  answer[#answer + 1] = redis.call('HGET', box.sends, sub(member, -SEND_ID)) or ''
end
return answer
