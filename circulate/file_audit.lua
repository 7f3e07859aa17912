-- audit file: look at a part of the list of files, and mend what contradicts the rest of it.
--
-- KEYS[1…8]  the list: see files.lua
-- ARGV[1]    what to look at
-- ARGV[2]    1: what is found is mended
-- ARGV[3…]   rows:     where in the index to go on, '-' at first; how many
--            unlisted: ids of rows, which may be missing in the index
--            accounts: how many rows to look at; accounts, whose sums are counted again
--            object:   a hash; its object as the caller saw it; how many rows have it, as he counted
--            sum:      totals or accounts; a field; files and bytes that it has too many, as he counted
--            listed, numbers: nothing
--
-- Returns {found: pairs, what is wrong and 1 if it is mended; more}. More is
--   rows:     where to go on or '', the id, state, size, hash, kind and account of each row
--   accounts: how many were looked at, and those that have too many rows for a step
--   listed:   how many rows and members of the index there are

local list = file_list()
local wrong = files_mistyped(list)
if wrong then return wrong end

local mend, found = ARGV[2] == '1', {}
local function fault(what, cannot)
  found[#found + 1], found[#found + 2] = what, (mend and not cannot) and '1' or '0'
  return mend
end
if mend then even_when_full(list.rows) end

-- From when a row is judged at first: see files.go.
local function judged_at_first(row)
  if string.find(row.more, '"in":"m"', 1, true) then return row.found end
  return format('%.0f', row.found - 1000000000000000)
end

-- Counts an account's kept files again. Returns how many rows it has; nil: too many.
local function count_again(account, most)
  local members = redis.call('ZRANGEBYLEX', list.index, '[' .. account .. '\0', '(' .. account .. '\1', 'LIMIT', 0, most + 1)
  if #members > most then return nil end
  local n, bytes = 0, 0
  for _, member in ipairs(members) do
    local id = sub(member, -22)
    local row = read_file(redis.call('HGET', list.rows, id))
    if row and row.state == 'k' and indexed_file(row, id) == member then n, bytes = n + 1, bytes + row.size end
  end
  local said = redis.call('HGET', list.accounts, account)
  local is = n > 0 and format('%.0f|%.0f', n, bytes)
  if said ~= is and fault('account ' .. account) then
    if is then redis.call('HSET', list.accounts, account, is) else redis.call('HDEL', list.accounts, account) end
  end
  return #members
end

if ARGV[1] == 'listed' then
  return {found, redis.call('HLEN', list.rows), redis.call('ZCARD', list.index)}
elseif ARGV[1] == 'rows' then
  local members = redis.call('ZRANGEBYLEX', list.index, ARGV[3], '+', 'LIMIT', 0, ARGV[4])
  local rows, unknown = {}, {}
  for _, member in ipairs(members) do
    local id = sub(member, -22)
    local row = read_file(redis.call('HGET', list.rows, id))
    if not row or indexed_file(row, id) ~= member then
      if fault('file ' .. id) then redis.call('ZREM', list.index, member) end
    else
      local judged = redis.call('ZSCORE', list.due, id)
      if not judged then
        judged = judged_at_first(row)
        if fault('file ' .. id) then redis.call('ZADD', list.due, judged, id) end
      end
      if row.state == 'k' and not object_of(list, row.hash) and fault('file ' .. id) then
        drop_file(list, id, row)
        row.state, row.hash, row.more = 'l', '', 'the list had lost its object' .. sub(row.more, string.find(row.more, '%z') or #row.more + 1)
        put_file(list, id, row, judged)
      end
      if row.state == 'k' and redis.call('HEXISTS', list.accounts, row.account) == 0 then unknown[row.account] = true end
      for _, part in ipairs({id, row.state, row.size, row.hash, row.kind, row.account}) do rows[#rows + 1] = part end
    end
  end
  for account in pairs(unknown) do
    if not count_again(account, 500) then fault('account ' .. account, true) end
  end
  local last = members[tonumber(ARGV[4])]
  return {found, last and '(' .. last or '', rows}
elseif ARGV[1] == 'unlisted' then
  for a = 3, #ARGV do
    local text = redis.call('HGET', list.rows, ARGV[a])
    local row = read_file(text)
    if text and not row then
      fault('file ' .. ARGV[a], true)
    elseif row and not redis.call('ZSCORE', list.index, indexed_file(row, ARGV[a])) and fault('file ' .. ARGV[a]) then
      redis.call('ZADD', list.index, '0', indexed_file(row, ARGV[a]))
      judge_from(list, ARGV[a], judged_at_first(row))
    end
  end
elseif ARGV[1] == 'accounts' then
  local most = tonumber(ARGV[3])
  local left, large = most, {}
  for a = 4, #ARGV do
    if left <= 0 then return {found, a - 4, large} end
    local rows = count_again(ARGV[a], most)
    if not rows then large[#large + 1] = ARGV[a] end
    left = left - 1 - (rows or most)
  end
  return {found, #ARGV - 3, large}
elseif ARGV[1] == 'object' then
  local hash, n = ARGV[3], tonumber(ARGV[5])
  if redis.call('HGET', list.objects, hash) == ARGV[4] and fault('object ' .. hash) then
    local name, size = object_of(list, hash)
    if name and n > 0 then
      put_object(list, hash, name, size, n)
    else
      if name then condemn(list, name, size, clock()) end
      redis.call('HDEL', list.objects, hash)
      add_up(list.totals, 'objects', -1, -(size or 0))
    end
  end
elseif ARGV[1] == 'sum' then
  local what = ARGV[3] == 'totals' and 'total ' or 'account '
  if fault(what .. ARGV[4]) then add_up(list[ARGV[3]], ARGV[4], -ARGV[5], -ARGV[6]) end
else
  local function files_in(field)
    return tonumber(string.match(redis.call('HGET', list.totals, field) or '0', '^%d+'))
  end
  if files_in('objects') ~= redis.call('HLEN', list.objects) then fault('total objects', true) end
  if files_in('condemned') ~= redis.call('HLEN', list.condemned) then fault('total condemned', true) end
  if files_in('kept') + files_in('lost') ~= redis.call('HLEN', list.rows) then fault('total kept', true) end
end
return {found}
