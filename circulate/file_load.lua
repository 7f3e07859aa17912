-- load file: add a row of a backup, unless there is one with its id.
--
-- KEYS[1…8]  the list: see files.lua
-- ARGV[1]    the row's id
-- ARGV[2]    the name of its object, or ''
-- ARGV[3]    its text
-- ARGV[4]    from when it is judged: see files.go
--
-- A kept row without an object, or whose object is condemned, is not added.
--
-- Returns 1 if it was added, otherwise 0.

local list = file_list()
local wrong = files_mistyped(list)
if wrong then return wrong end

local id, name, row = ARGV[1], ARGV[2], read_file(ARGV[3])
if not row or redis.call('HEXISTS', list.rows, id) == 1 then return 0 end
if row.state == 'k' then
  local its, size, n = object_of(list, row.hash)
  if not its then
    if name == '' or redis.call('HEXISTS', list.condemned, name) == 1 then return 0 end
    its, size, n = name, tonumber(row.size), 0
    add_up(list.totals, 'objects', 1, size)
  end
  put_object(list, row.hash, its, size, n + 1)
end
put_file(list, id, row, ARGV[4])
return 1
