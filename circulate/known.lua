-- known: shared by the scripts that write messages, about the messages that an account
-- remembers; it comes after entry.lua. Section Memory of doc.go has the rules.
--
-- A mark is a number of 19 digits. A message has a letter, and marks:
--   i ID                it has an id, and nothing else identifies it
--   b ID CONTENT BARE   it has an id, and its content identifies it too
--   n CONTENT BARE      it has no id
-- CONTENT and BARE stand for the same content: an account knows BARE if a message without
-- an id had it, and CONTENT if a message with an id had it.
--
-- A script gets of a page: a text, how many marks the newer half has at most, ms, and how
-- many marks follow as arguments of their own. The text of most pages is i, or b and all
-- BAREs: all messages have that letter, and no two the same id. Then the IDs follow, and
-- after them the CONTENTs. The text of any other page is m and all messages, each its letter
-- and its marks, and nothing follows.
--
-- An account's marks are two SETs, newer and older. Redis stores a small SET of numbers in
-- eight bytes each. Small numbers in them are no marks: BARES says that there are BAREs,
-- and the others in which periods of time marks were added. A period has ms milliseconds.

local BARES = '2'

-- Whether a reply to SMISMEMBER says, from one place to another, that no mark is there.
local function none_of(there, from, to)
  if there.err then return false end
  for i = from, to do
    if there[i] ~= 0 then return false end
  end
  return true
end

-- Remembers the messages of a page that were written, for at least ms. If the stream refused
-- one, written is how many were before, and only these are remembered. Returns 1 if older
-- marks were dropped before their time, because there are too many, otherwise 0.
local function remember_page(page, ticket, written)
  local newer, older, most, ms, nth, period, current, first, many, messages = unpack(page)
  local kept, n, bare, gone
  if page.end_of then
    kept, n, bare, gone = page.end_of(written)
  else
    kept, n = {unpack(ARGV, first, first + many - 1)}, many
    if written then
      n = written
      if many > messages then
        for i = 1, written do kept[written + i] = kept[messages + i] end
        n = 2 * written
      end
    end
  end
  if n == 0 then return 0 end
  local over, prolong = 0, false
  if not current then
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
      over = redis.call('UNLINK', older) -- RENAME would free it at once
      redis.call('RENAME', newer, older)
      prolong = true
    end
  end
  if prolong then
    n = n + 1
    kept[n] = period
  end
  if bare then
    n = n + 1
    kept[n] = BARES
  end
  for from = 1, n, 1000 do redis.call('SADD', newer, unpack(kept, from, n - from < 1000 and n or from + 999)) end
  if prolong then redis.call('PEXPIRE', newer, format('%d', 2 * ms)) end
  if gone then
    for _, mark in ipairs(gone) do
      redis.pcall('SREM', newer, mark)
      redis.pcall('SREM', older, mark)
    end
  end
  return over
end

-- Looks up the marks of a page, which begin at ARGV[at]. Returns the page, the function
-- remember_page that gets it, and a function that judges the next message: it returns whether it
-- is a repetition. If it is none, the caller writes it. There is no such function if no
-- message of the page is a repetition. Returns nil and an error if a key has another type.
local function recall(newer, older, at, now)
  local marks, ms, many = ARGV[at], ARGV[at + 2] + 0, ARGV[at + 3] + 0
  local nth = 10 + (now - now % ms) / ms
  local period = format('%d', nth)
  local page = {newer, older, ARGV[at + 1], ms, nth, period, false, at + 4, many, many}
  if many > 0 then
    -- Most pages have no repetition, and one question to each SET shows it.
    local with, first, n = byte(marks) == 98, at + 4, many -- b
    local there, none
    if with then
      n = many / 2
      page[10] = n
      there = redis.pcall('SMISMEMBER', newer, period, BARES, unpack(ARGV, first, first + n - 1))
      none = none_of(there, 2, n + 2)
    else
      there = redis.pcall('SMISMEMBER', newer, period, unpack(ARGV, first, first + n - 1))
      none = none_of(there, 2, n + 1)
    end
    page[7] = there[1] == 1
    -- Whether there are older marks is not worth a question about few.
    if none and (n < 8 or redis.pcall('SCARD', older) ~= 0) then
      if with then
        none = none_of(redis.pcall('SMISMEMBER', older, BARES, unpack(ARGV, first, first + n - 1)), 1, n + 1)
      else
        none = none_of(redis.pcall('SMISMEMBER', older, unpack(ARGV, first, first + n - 1)), 1, n)
      end
    end
    if none then return page, remember_page end
    -- What follows reads the other form.
    local all = {'m'}
    for i = 1, n do
      all[i + 1] = with and 'b' .. ARGV[first + i - 1] .. ARGV[first + n + i - 1] .. sub(marks, 19 * i - 17, 19 * i + 1)
        or 'i' .. ARGV[first + i - 1]
    end
    marks = table.concat(all)
  end
  local known, asked, n, at, size, with, without = {}, {}, 0, 2, #marks, false, false
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
  page[7] = known[period] or false
  local turns, bares = asked, without or known[BARES]
  if with and known[BARES] then
    asked, n, at = {}, 0, 2
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
  n, at = 0, 2
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
    local first = turns[turn]
    if letter == 105 then
      at = at + 20
      if known[first] then return true end
      written = first
      return false
    end
    if letter == 110 then -- n
      at = at + 39
      turn = turn + 1
      local second = turns[turn]
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

  function page.end_of(refused)
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
    return kept, n, bare_written, gone
  end
  return page, remember_page, judge
end
