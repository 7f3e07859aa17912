-- share file: add a row with the bytes of another one, as for a send that names a file.
--
-- KEYS[1…8]  the list: see files.lua
-- ARGV[1]    the row's id
-- ARGV[2]    the other row's
-- ARGV[3]    how many bytes the account may have; 0: any number
-- ARGV[4…8]  when it was found, unix ms; kind; place; account; more
-- ARGV[9]    from when the row is judged: see files.go
--
-- Returns shared, known (a row that was shared before), none (the other row is not kept) or
-- full:account.

local list = file_list()
local wrong = files_mistyped(list)
if wrong then return wrong end

local id, share = ARGV[1], tonumber(ARGV[3])
local old = read_file(redis.call('HGET', list.rows, id))
if old and old.state == 'k' then return 'known' end
local from = read_file(redis.call('HGET', list.rows, ARGV[2]))
local name, size, n
if from and from.state == 'k' then name, size, n = object_of(list, from.hash) end
if not name then return 'none' end
if share > 0 and bytes_in(list.accounts, ARGV[7]) + size > share then return 'full:account' end

if old then drop_file(list, id, old) end
put_object(list, from.hash, name, size, n + 1)
put_file(list, id, {state = 'k', found = ARGV[4], kept = format('%.0f', clock()), size = from.size, hash = from.hash, kind = ARGV[5],
  place = ARGV[6], account = ARGV[7], more = ARGV[8]}, ARGV[9])
return 'shared'
