-- audit send: look at a page of one of the outbox's keys, and mend what is not in the
-- places of its state.
--
-- KEYS[1…8]  the outbox: see sends.lua
-- KEYS[9]    tickets  HASH  id -> current ticket
-- ARGV[1]   which key: sends, index, line or due
-- ARGV[2]   where to go on: 0 at first, for the others '-'
-- ARGV[3]   how much of it
-- ARGV[4]   1: what is found is mended
--
-- Returns {where to go on, '' or 0 at the end; pairs: what is wrong, and of whom}. What is
-- wrong is a letter: o its account is gone, r it has no record, l it is missing from a
-- place, s it is where it does not belong.

local box, tickets = outbox(1), KEYS[9]
local wrong = outbox_mistyped(box) or mistyped(tickets, 'hash')
if wrong then return wrong end

local mend, now, found = ARGV[4] == '1', clock(), {}
local function fault(letter, whom)
  found[#found + 1], found[#found + 2] = letter, whom
  return mend
end
if mend then even_when_full(box.sends) end

if ARGV[1] == 'sends' then
  local page = redis.call('HSCAN', box.sends, ARGV[2], 'COUNT', ARGV[3])
  for i = 1, #page[2], 2 do
    local id, s = page[2][i], read_send(page[2][i + 1])
    if not s then
      if fault('r', id) then redis.call('HDEL', box.sends, id) end
    else
      local member = indexed(s, id)
      if not (redis.call('ZSCORE', box.index, member) and redis.call('ZSCORE', box.index, by_time(member))) then
        if fault('l', id) then index_send(box, s, id) end
      end
    end
  end
  return {page[1], found}
end

local members = redis.call('ZRANGEBYLEX', box[ARGV[1]], ARGV[2], '+', 'LIMIT', 0, ARGV[3])
for _, member in ipairs(members) do
  local id = sub(member, -SEND_ID)
  if ARGV[1] == 'line' then
    local s = get_send(box, id)
    if not s or in_line(s, id) ~= member or s.state ~= 'q' and s.state ~= 'a' then
      if fault('s', id) then
        redis.call('ZREM', box.line, member)
        line_up(box, sub(member, 1, #member - SEND_ID - 11), now)
      end
    end
  elseif ARGV[1] == 'due' then
    local line = sub(string.match(member, '\t(.*)$'), 14)
    local head = head_of(box, line)
    local s = head and get_send(box, head)
    if not s or s.state ~= 'q' or in_due(s) ~= member then
      if fault('s', line) then redis.call('ZREM', box.due, member) end
    end
  elseif sub(member, 1, 1) == 't' then
    local s = get_send(box, id)
    if s and by_time(indexed(s, id)) ~= member then
      if fault('s', id) then redis.call('ZREM', box.index, member) end
    elseif not s and mend then
      redis.call('ZREM', box.index, member) -- its member by account tells
    end
  else
    local group, account = string.match(member, '^(.)([^%z]*)%z')
    if redis.call('HEXISTS', tickets, account) == 0 then
      if fault('o', account) then forget_sends(box, account) end
    elseif group == 'w' or group == 'k' then
      local there
      if group == 'w' then
        there = redis.call('HEXISTS', box.windows, sub(member, 2))
      else
        there = redis.call('HEXISTS', box.names, 'k' .. id)
      end
      if there == 0 and fault('r', account) then
        redis.call('ZREM', box.index, member)
        redis.call('ZREM', box.ends, member)
        tally(box, group, account, -1)
      end
    else
      local s = get_send(box, id)
      local lined = s and (s.state == 'q' or s.state == 'a')
      if not s then
        if fault('r', id) then
          unindex(box, member)
          redis.call('ZREM', box.ends, id)
        end
      elseif indexed(s, id) ~= member then
        if fault('s', id) then
          unindex(box, member)
          index_send(box, s, id)
        end
      elseif lined and not redis.call('ZSCORE', box.line, in_line(s, id)) then
        if fault('l', id) then
          leave_due(box, s)
          s.place = next_place(box, line_of(s))
          put_send(box, id, s)
          redis.call('ZADD', box.line, 0, in_line(s, id))
          line_up(box, line_of(s), now)
        end
      elseif s.state == 'q' and head_of(box, line_of(s)) == id and not (s.at ~= '' and redis.call('ZSCORE', box.due, in_due(s))) then
        if fault('l', id) then
          s.at = ''
          put_send(box, id, s)
          line_up(box, line_of(s), now)
        end
      end
    end
  end
end
local last = members[tonumber(ARGV[3])]
return {last and '(' .. last or '', found}
