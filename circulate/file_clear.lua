-- clear file: forget condemned names that the store has removed.
--
-- KEYS[1…8]  the list: see files.lua
-- ARGV[1…]   names
--
-- Returns how many were condemned.

local list = file_list()
local wrong = files_mistyped(list)
if wrong then return wrong end

even_when_full(list.condemned)
local cleared = 0
for _, name in ipairs(ARGV) do
  local size = string.match(redis.call('HGET', list.condemned, name) or '', '|(%d+)$')
  if redis.call('HDEL', list.condemned, name) == 1 then
    add_up(list.totals, 'condemned', -1, -(tonumber(size) or 0))
    cleared = cleared + 1
  end
end
return cleared
