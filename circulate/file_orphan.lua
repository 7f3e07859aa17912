-- orphan file: condemn names of the store that no object has.
--
-- KEYS[1…8]  the list: see files.lua
-- ARGV[1…]   hash, name, size; and so on
--
-- A name that is condemned cannot be kept any more, so a caller that is about to keep it
-- stores the bytes again.
--
-- Returns the names that are condemned now.

local list = file_list()
local wrong = files_mistyped(list)
if wrong then return wrong end

even_when_full(list.condemned)
local now, names = clock(), {}
for a = 1, #ARGV, 3 do
  if object_of(list, ARGV[a]) ~= ARGV[a + 1] then
    condemn(list, ARGV[a + 1], tonumber(ARGV[a + 2]), now)
    names[#names + 1] = ARGV[a + 1]
  end
end
return names
