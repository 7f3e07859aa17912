-- known, to move: shared by the scripts that move accounts or write them to a backup; it
-- comes after entry.lua.

-- Returns what an account remembers, given its two keys, as four texts: for how many more
-- ms, and the marks, of the newer and the older marks. Returns nil if it remembers nothing.
-- A Redis user may lack the right to read a SET, which earlier versions did not need: then
-- the account forgets.
local function known_of(newer, older)
  if redis.call('EXISTS', newer, older) == 0 then return nil end
  local found, any = {}, false
  for k, key in ipairs({newer, older}) do
    local marks = redis.pcall('SMEMBERS', key)
    if marks.err or not marks[1] then
      found[2 * k - 1], found[2 * k] = '', ''
    else
      found[2 * k - 1], found[2 * k] = format('%d', math.max(1, redis.call('PTTL', key))), table.concat(marks, ' ')
      any = true
    end
  end
  return any and found or nil
end

-- Has an account remember what known_of has returned.
local function know(newer, older, left, marks, older_left, older_marks)
  for k, key in ipairs({newer, older}) do
    local some, ms = marks, left
    if k == 2 then some, ms = older_marks, older_left end
    local all = {}
    for mark in string.gmatch(some, '%d+') do
      all[#all + 1] = mark
      if #all == 1000 then
        redis.call('SADD', key, unpack(all))
        all = {}
      end
    end
    if #all > 0 then redis.call('SADD', key, unpack(all)) end
    if some ~= '' then redis.call('PEXPIRE', key, ms) end
  end
end
