-- lose file: note that a file was not kept, and why.
--
-- KEYS[1…8]  the list: see files.lua
-- ARGV[1]    the row's id
-- ARGV[2…7]  when it was found, unix ms; size; kind; place; account; more
--
-- Returns 1; 0 if the file is kept, which stays so.

local list = file_list()
local wrong = files_mistyped(list)
if wrong then return wrong end

local old = read_file(redis.call('HGET', list.rows, ARGV[1]))
if old and old.state == 'k' then
  judge_from(list, ARGV[1], ARGV[2])
  return 0
end
if old then drop_file(list, ARGV[1], old) end
put_file(list, ARGV[1], {state = 'l', found = ARGV[2], kept = format('%.0f', clock()), size = ARGV[3], hash = '', kind = ARGV[4],
  place = ARGV[5], account = ARGV[6], more = ARGV[7]})
return 1
