-- look file: return rows, each with the name of its object.
--
-- KEYS[1…8]  the list: see files.lua
-- ARGV[1]    1: note that somebody reads them
-- ARGV[2…]   ids
--
-- Returns for each its text, the name of its object, and from when it is judged; '' where
-- there is none.

local list = file_list()
local wrong = files_mistyped(list)
if wrong then return wrong end

local found = {}
for a = 2, #ARGV do
  local text = redis.call('HGET', list.rows, ARGV[a]) or ''
  local row = read_file(text)
  local name = row and row.hash ~= '' and object_of(list, row.hash) or ''
  if row and row.state == 'k' and ARGV[1] == '1' then redis.call('ZADD', list.read, row.found, ARGV[a]) end
  found[#found + 1] = text
  found[#found + 1] = name
  found[#found + 1] = redis.call('ZSCORE', list.due, ARGV[a]) or ''
end
return found
