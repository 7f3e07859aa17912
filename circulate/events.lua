-- events: begin or end that a consumer group gets the events of a shard.
--
-- KEYS[1]  sends:names  HASH  e -> the groups that ask for events, with spaces between
-- ARGV[1]  the group
-- ARGV[2]  1 if it gets them, otherwise 0
--
-- Returns 1 if that has changed, otherwise 0.

local wrong = mistyped(KEYS[1], 'hash')
if wrong then return wrong end

local groups, there = {}, false
for group in string.gmatch(redis.call('HGET', KEYS[1], 'e') or '', '%S+') do
  if group == ARGV[1] then there = true else groups[#groups + 1] = group end
end
if there == (ARGV[2] == '1') then return 0 end
even_when_full(KEYS[1])
if not there then groups[#groups + 1] = ARGV[1] end
if groups[1] then
  redis.call('HSET', KEYS[1], 'e', table.concat(groups, ' '))
else
  redis.call('HDEL', KEYS[1], 'e')
end
return 1
