-- raise file: judge rows from a later time, because something names them again, or still.
--
-- KEYS[1…8]  the list: see files.lua
-- ARGV[1]    from when, unix ms; '+' and a number: that many ms from now
-- ARGV[2…]   ids of rows
--
-- Returns how many of them there are.

local list = file_list()
local wrong = files_mistyped(list)
if wrong then return wrong end

even_when_full(list.rows)
local from, there = ARGV[1], 0
if sub(from, 1, 1) == '+' then from = format('%.0f', clock() + tonumber(sub(from, 2))) end
for a = 2, #ARGV do
  if redis.call('HEXISTS', list.rows, ARGV[a]) == 1 then
    judge_from(list, ARGV[a], from)
    there = there + 1
  end
end
return there
