-- end file: end rows, and condemn the objects that no row has any more.
--
-- KEYS[1…8]  the list: see files.lua
-- ARGV[1]    '': the rows go. Otherwise they stay as lost, for this reason.
-- ARGV[2…]   rows: id, the time from which the caller has judged it, unix ms
--
-- A row is passed over if it is judged from another time by now: something names it again.
--
-- Returns {how many rows ended; names that are condemned now}.

local list = file_list()
local wrong = files_mistyped(list)
if wrong then return wrong end

even_when_full(list.rows)
local now, ended, names = clock(), 0, {}
for a = 2, #ARGV, 2 do
  local id = ARGV[a]
  local from = redis.call('ZSCORE', list.due, id)
  local text = redis.call('HGET', list.rows, id)
  local row = read_file(text)
  if from and tonumber(from) == tonumber(ARGV[a + 1]) and (ARGV[1] == '' or row and row.state == 'k') then
    local gone = row and row.state == 'k' and let_go(list, row, now)
    if gone then names[#names + 1] = gone end
    if row then drop_file(list, id, row) elseif text then redis.call('HDEL', list.rows, id) end
    if ARGV[1] == '' then
      redis.call('ZREM', list.due, id)
    else
      row.state, row.hash, row.more = 'l', '', ARGV[1] .. sub(row.more, string.find(row.more, '%z') or #row.more + 1)
      put_file(list, id, row)
    end
    ended = ended + 1
  end
end
return {ended, names}
