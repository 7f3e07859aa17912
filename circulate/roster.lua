-- roster: which processes of the service run, and which have left.
--
-- KEYS[1]  processes  ZSET  process -> when it reported last, unix ms
-- KEYS[2]  left       LIST  processes that have left since the last look
-- ARGV[1]  the most to return
--
-- Returns two arrays: processes with their times, and processes that have left, which are
-- returned once.

local processes, left, most = KEYS[1], KEYS[2], tonumber(ARGV[1])

local wrong = mistyped(processes, 'zset', left, 'list')
if wrong then return wrong end
local gone = redis.call('LRANGE', left, -most, -1)
if #gone > 0 then redis.call('LTRIM', left, 0, -1 - #gone) end
return {redis.call('ZRANGE', processes, 0, most - 1, 'WITHSCORES'), gone}
