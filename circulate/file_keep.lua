-- keep file: add a row for a file whose bytes the store has.
--
-- KEYS[1…8]  the list: see files.lua
-- ARGV[1]    the row's id
-- ARGV[2]    the name under which the caller has stored the bytes
-- ARGV[3]    a name that the store does not have any more, or ''
-- ARGV[4]    how many bytes there may be in all; 0: any number
-- ARGV[5]    how many of the account; 0: any number
-- ARGV[6…12] when it was found, unix ms; size; hash; kind; place; account; more
-- ARGV[13]   when the caller began to store the bytes, unix ms
-- ARGV[14]   how long that may be ago, ms
-- ARGV[15]   from when the row is judged, unix ms; below zero for a file that no message carries:
--            see files.go. If that was kept before, it counts as kept now.
--
-- If an object has the hash already, the row gets that object, and the caller's name is
-- condemned. So equal bytes are stored once.
--
-- Returns {kept, shared, known, void, full or full:account; the name that the row has}. Known is
-- a row that was kept before. Void is a name that is condemned, or too old to be kept: the
-- bytes must be stored again.

local list = file_list()
local wrong = files_mistyped(list)
if wrong then return wrong end

local id, own, instead, size, judged = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[7]), ARGV[15]
local row = {state = 'k', found = ARGV[6], size = ARGV[7], hash = ARGV[8], kind = ARGV[9], place = ARGV[10], account = ARGV[11], more = ARGV[12]}
local now = clock()
row.kept = format('%.0f', now)
local old = read_file(redis.call('HGET', list.rows, id))
local name, had, n = object_of(list, row.hash)
local missing = name ~= nil and name == instead and name ~= own
if redis.call('HEXISTS', list.condemned, own) == 1 then return {'void', ''} end
if tonumber(ARGV[13]) + tonumber(ARGV[14]) < now then
  condemn(list, own, size, now)
  return {'void', ''}
end

if old and old.state == 'k' and not (missing and old.hash == row.hash) then
  judge_from(list, id, judged)
  if tonumber(judged) < 0 then
    old.kept = row.kept
    redis.call('HSET', list.rows, id, written_file(old))
  end
  local its = object_of(list, old.hash)
  if its ~= own then condemn(list, own, size, now) end
  return {'known', its or ''}
end

-- What a quota refuses is condemned like what is not needed.
local most, share = tonumber(ARGV[4]), tonumber(ARGV[5])
if not missing and share > 0 and bytes_in(list.accounts, row.account) + size > share then
  condemn(list, own, size, now)
  return {'full:account', ''}
end
if not name and most > 0 and bytes_in(list.totals, 'objects') + bytes_in(list.totals, 'condemned') + size > most then
  condemn(list, own, size, now)
  return {'full', ''}
end

if missing then
  put_object(list, row.hash, own, had, n)
  condemn(list, name, 0, now)
  name = own
end
if old and old.state == 'k' then
  judge_from(list, id, judged)
  return {'known', name}
end
if old then drop_file(list, id, old) end
local outcome = 'kept'
if not name then
  name = own
  put_object(list, row.hash, own, size, 1)
  add_up(list.totals, 'objects', 1, size)
else
  if name ~= own then
    condemn(list, own, size, now)
    outcome = 'shared'
  end
  put_object(list, row.hash, name, had, n + 1)
end
put_file(list, id, row, judged)
return {outcome, name}
