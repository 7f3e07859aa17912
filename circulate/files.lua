-- Shared by the steps of files. It comes after entry.lua.

-- The keys of the list of files: see files.go.
local function file_list()
  return {rows = KEYS[1], objects = KEYS[2], due = KEYS[3], index = KEYS[4], read = KEYS[5], condemned = KEYS[6],
    totals = KEYS[7], accounts = KEYS[8]}
end

-- Returns an error reply if one of them has the wrong type.
local function files_mistyped(list)
  return (mistyped(list.rows, 'hash', list.objects, 'hash', list.due, 'zset', list.index, 'zset', list.read, 'zset',
    list.condemned, 'hash', list.totals, 'hash', list.accounts, 'hash'))
end

-- A row is state|found|kept|size|hash|kind|place|account NUL more. The state is k, kept, or
-- l, lost. Found is when its holder was written, kept when the row was, unix ms. More is
-- why it is lost, NUL, and what only callers read.
local ROW = '^(%a)|(%d+)|(%d+)|(%d+)|(%x*)|([^|%z]*)|(%d+)|([^%z]*)%z'

local function read_file(text)
  local state, found, kept, size, hash, kind, place, account = string.match(text or '', ROW)
  if not state then return nil end
  return {state = state, found = found, kept = kept, size = size, hash = hash, kind = kind, place = place, account = account,
    more = sub(text, (string.find(text, '%z')) + 1)}
end

local function written_file(row)
  return table.concat({row.state, row.found, row.kept, row.size, row.hash, row.kind, row.place, row.account}, '|') .. '\0' .. row.more
end

local function indexed_file(row, id) return row.account .. '\0' .. stamp(tonumber(row.found)) .. id end

-- A sum of files and bytes, FILES|BYTES, in a field of a HASH.
local function add_up(key, field, files, bytes)
  local n, b = string.match(redis.call('HGET', key, field) or '', '^(%d+)|(%d+)$')
  n, b = (tonumber(n) or 0) + files, (tonumber(b) or 0) + bytes
  if n <= 0 then redis.call('HDEL', key, field) else redis.call('HSET', key, field, format('%.0f|%.0f', n, math.max(0, b))) end
end

local function bytes_in(key, field)
  local bytes = string.match(redis.call('HGET', key, field) or '', '|(%d+)$')
  return tonumber(bytes) or 0
end

-- Counts a row, or with -1 counts it no more. Totals has the sums in all, of kept and of
-- lost files, those of each kind, and those of what the store has: objects and condemned.
local function count_file(list, row, by)
  if row.state == 'k' then
    add_up(list.totals, 'kept', by, by * row.size)
    add_up(list.totals, 'kind:' .. row.kind, by, by * row.size)
    add_up(list.accounts, row.account, by, by * row.size)
  else
    add_up(list.totals, 'lost', by, 0)
  end
end

-- An object is name|size|rows: where the store has the bytes, and how many rows have them.
local function object_of(list, hash)
  local name, size, n = string.match(redis.call('HGET', list.objects, hash) or '', '^([^|]+)|(%d+)|(%d+)$')
  return name, tonumber(size), tonumber(n)
end

local function put_object(list, hash, name, size, n)
  redis.call('HSET', list.objects, hash, format('%s|%.0f|%.0f', name, size, n))
end

-- A condemned name is for the store to remove. No row has it, and no step gives it to one.
local function condemn(list, name, size, now)
  if redis.call('HSETNX', list.condemned, name, format('%.0f|%.0f', now, size)) == 1 then
    add_up(list.totals, 'condemned', 1, size)
  end
end

-- Takes a row from its object, and condemns an object that has no row left. Returns its
-- name then.
local function let_go(list, row, now)
  local name, size, n = object_of(list, row.hash)
  if not name then return nil end
  if n > 1 then
    put_object(list, row.hash, name, size, n - 1)
    return nil
  end
  condemn(list, name, size, now)
  redis.call('HDEL', list.objects, row.hash)
  add_up(list.totals, 'objects', -1, -size)
  return name
end

-- A row is judged by this time, which only ever becomes later.
local function judge_from(list, id, time)
  local known = redis.call('ZSCORE', list.due, id)
  if not known or tonumber(known) < tonumber(time) then redis.call('ZADD', list.due, time, id) end
end

-- Judged is from when the row is judged, unix ms; nil: from when it was found.
local function put_file(list, id, row, judged)
  redis.call('HSET', list.rows, id, written_file(row))
  redis.call('ZADD', list.index, '0', indexed_file(row, id))
  judge_from(list, id, judged or row.found)
  count_file(list, row, 1)
end

local function drop_file(list, id, row)
  count_file(list, row, -1)
  redis.call('HDEL', list.rows, id)
  redis.call('ZREM', list.index, indexed_file(row, id))
  redis.call('ZREM', list.read, id)
end
