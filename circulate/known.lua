-- known: shared by the scripts that write messages, about the messages that an account
-- remembers; it comes after entry.lua. Section Memory of doc.go has the rules.
--
-- A mark is a number of 19 digits. The marks of a page are one text. Each message has a
-- letter, and marks:
--   i ID                it has an id, and nothing else identifies it
--   b ID CONTENT BARE   it has an id, and its content identifies it too
--   n CONTENT BARE      it has no id
-- CONTENT and BARE stand for the same content: an account knows BARE if a message without
-- an id had it, and CONTENT if a message with an id had it.
--
-- An account's marks are two SETs, newer and older. Redis stores a small SET of numbers in
-- eight bytes each. Small numbers in them are no marks: BARES says that there are BAREs,
-- and the others in which periods of time marks were added. A period has ms milliseconds.

-- Looks up a page's marks. Returns two functions, or nil and an error if a key has another
-- type.
--
-- The first one judges the next message: it returns whether it is a repetition. If it is
-- none, the caller writes it. The second one remembers the messages that were written,
-- for at least ms. If the stream refused the last one, it gets true, and does not
-- remember that one. It returns 1 if it dropped older marks before their time, because
-- there are too many, otherwise 0.
local function recall(newer, older, marks, most, ms, now)
  local BARES, nth = '2', 10 + (now - now % ms) / ms
  local period = format('%d', nth)
  local known, asked, n, at, size, with, without = {}, {}, 0, 1, #marks, false, false
  while at < size do
    local letter = byte(marks, at)
    n = n + 1
    asked[n] = sub(marks, at + 1, at + 19)
    if letter == 105 then -- i
      at = at + 20
    elseif letter == 98 then -- b
      with = true
      at = at + 58
    else
      without = true
      n = n + 1
      asked[n] = sub(marks, at + 20, at + 38)
      at = at + 39
    end
  end
  local function look(key, list, many)
    for from = 0, many - 1, 1000 do
      local some = math.min(1000, many - from)
      local there = redis.pcall('SMISMEMBER', key, unpack(list, from + 1, from + some))
      if there.err then
        if sub(there.err, 1, 9) == 'WRONGTYPE' then return there end
        -- The Redis user may lack this right, which earlier versions did not need.
        there = {}
        for i = 1, some do there[i] = redis.call('SISMEMBER', key, list[from + i]) end
      end
      for i = 1, some do
        if there[i] == 1 then known[list[from + i]] = true end
      end
    end
  end
  asked[n + 1], asked[n + 2] = BARES, period
  local wrong = look(newer, asked, n + 2)
  -- Whether there are older marks is not worth a question about few.
  if not wrong and (n < 8 or redis.pcall('SCARD', older) ~= 0) then wrong = look(older, asked, n + 1) end
  if wrong then return nil, wrong end
  local page, bares = asked, without or known[BARES]
  if with and known[BARES] then
    asked, n, at = {}, 0, 1
    while at < size do
      local letter = byte(marks, at)
      if letter == 98 then
        n = n + 1
        asked[n] = sub(marks, at + 39, at + 57)
      end
      at = at + (letter == 105 and 20 or letter == 98 and 58 or 39)
    end
    look(newer, asked, n)
    look(older, asked, n)
  end

  local kept, gone, bare_written = {}, nil, nil
  local turn = 0 -- of the marks that were asked about
  n, at = 0, 1
  local written, also -- the message that was to be written: a mark, and where another one is
  local function note()
    known[written] = true
    n = n + 1
    kept[n] = written
    if also then
      local second = sub(marks, also, also + 18)
      if without then known[second] = true end -- otherwise nobody asks
      n = n + 1
      kept[n] = second
      also = nil
    end
    written = nil
  end

  local function judge()
    if written then note() end
    local letter = byte(marks, at)
    turn = turn + 1
    local first = page[turn]
    if letter == 105 then
      at = at + 20
      if known[first] then return true end
      written = first
      return false
    end
    if letter == 110 then -- n
      at = at + 39
      turn = turn + 1
      local second = page[turn]
      if known[first] or known[second] then return true end
      written, bare_written = second, true
      return false
    end
    local from = at
    at = at + 58
    if known[first] then return true end
    written, also = first, from + 20
    if not bares then return false end
    local bare = sub(marks, from + 39, from + 57)
    if not known[bare] then return false end
    -- The message without an id is this one from now on. Another message with the same
    -- content and another id is no repetition.
    known[bare] = nil
    gone = gone or {}
    gone[#gone + 1] = bare
    note()
    return true
  end

  local function remember(ticket, refused)
    if written and not refused then note() end
    if gone then
      local drop = {}
      for _, bare in ipairs(gone) do drop[bare] = not known[bare] end
      local m, all = 0, n
      for i = 1, all do
        if not drop[kept[i]] then
          m = m + 1
          kept[m] = kept[i]
        end
      end
      for i = m + 1, all do kept[i] = nil end
      n = m
    end
    if n == 0 then return 0 end
    local over, prolong = 0, false
    if not known[period] then
      -- All older marks are from before the first period of the newer ones. So if that is
      -- not the last one, they are past their time.
      if redis.call('EXISTS', newer) == 1 and (redis.call('SISMEMBER', newer, format('%d', nth - 1)) == 0
        or redis.call('SISMEMBER', newer, format('%d', nth - 2)) == 1) then
        redis.call('RENAME', newer, older)
        if redis.call('PTTL', older) == -1 then redis.call('PEXPIRE', older, format('%d', 2 * ms)) end
      end
      prolong = true
    elseif n >= 16 or sub(ticket, 14) == '0' then
      -- Few marks are counted in one of ten cases only, because counting takes time.
      local there = redis.pcall('SCARD', newer)
      if type(there) == 'number' and there + n > most + 2 then
        over = redis.call('EXISTS', older)
        redis.call('RENAME', newer, older)
        prolong = true
      end
    end
    if prolong then
      n = n + 1
      kept[n] = period
    end
    if bare_written then
      n = n + 1
      kept[n] = BARES
    end
    for from = 1, n, 1000 do redis.call('SADD', newer, unpack(kept, from, math.min(from + 999, n))) end
    if prolong then redis.call('PEXPIRE', newer, format('%d', 2 * ms)) end
    if gone then
      for _, bare in ipairs(gone) do
        redis.pcall('SREM', newer, bare)
        redis.pcall('SREM', older, bare)
      end
    end
    return over
  end
  return judge, remember
end
