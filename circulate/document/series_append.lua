-- append point: put a point at the end of a series, and drop the oldest above a number.
--
-- KEYS[1]  the series  LIST  time(4) data, the newest last
-- ARGV[1]  the point
-- ARGV[2]  how many points stay
--
-- Returns 1, or 0 if the last point is of the same time: then it stays.

local wrong = mistyped(KEYS[1], 'list')
if wrong then return wrong end

local last = redis.call('LINDEX', KEYS[1], -1)
if last and sub(last, 1, 4) == sub(ARGV[1], 1, 4) then return 0 end
-- The series is cut first. A full Redis refuses a script that begins with RPUSH.
redis.call('LTRIM', KEYS[1], 1 - tonumber(ARGV[2]), -1)
redis.call('RPUSH', KEYS[1], ARGV[1])
return 1
