-- order send: put sends of a group into the order of time that are not in it, because an
-- earlier version queued them.
--
-- KEYS[1…8]  the outbox: see sends.lua
-- ARGV[1]   the group
-- ARGV[2]   the member of the index behind which to continue, or '' at first
-- ARGV[3]   how many to look at, at most
--
-- Returns the member behind which to continue, or '' at the end.

local box = outbox(1)
local wrong = outbox_mistyped(box)
if wrong then return wrong end

even_when_full(box.sends)
local from = ARGV[2] == '' and '[' .. ARGV[1] or '(' .. ARGV[2]
local members = redis.call('ZRANGEBYLEX', box.index, from, '(' .. string.char(byte(ARGV[1]) + 1), 'LIMIT', 0, ARGV[3])
for _, member in ipairs(members) do redis.call('ZADD', box.index, '0', by_time(member)) end
return members[tonumber(ARGV[3])] or ''
