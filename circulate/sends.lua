-- Shared by the steps of sends. It comes after entry.lua.
--
-- All of these have a peer in one form, account NUL peer, here called a line. No id and no
-- peer has a control character, so NUL and the byte after it bound what begins with one.

-- Numbers that never change are passed to Redis as texts: to make a text of a number
-- costs more than a short command.

-- The seven keys of a shard's sends, of which the first is KEYS[at], and its messages.
local function outbox(at)
  return {sends = KEYS[at], line = KEYS[at + 1], due = KEYS[at + 2], index = KEYS[at + 3], ends = KEYS[at + 4],
    names = KEYS[at + 5], windows = KEYS[at + 6], messages = KEYS[at + 7]}
end

-- Returns an error reply if one of them has the wrong type.
local function outbox_mistyped(box)
  return (mistyped(box.sends, 'hash', box.line, 'zset', box.due, 'zset', box.index, 'zset', box.ends, 'zset',
    box.names, 'hash', box.windows, 'hash', box.messages, 'stream'))
end

-- Returns the first of these replies that is an error.
local function failed(...)
  for i = 1, select('#', ...) do
    local reply = (select(i, ...))
    if type(reply) == 'table' and reply.err then return reply end
  end
end

-- A record is the lengths of its fields, each with a comma behind it, a bar, and the fields,
-- in this order. It is read and written several times for each send, and one pattern
-- finds all lengths. The first field is the state:
--
--   q queued · a attempting · y accepted · n rejected · u unknown · f failed · c canceled · x expired
--
-- Since is when the state began, not_before when the next attempt may be, expires after
-- when there is none: unix ms, or ''. Place is its number in the line of its peer, and at
-- the stamp under which it stands in due; '' means that it is not there. Windowed is 1 if
-- it needs its peer's window, and 2 if it takes nothing from the window's count. Counted is
-- until when the window lasted from whose count the last attempt was taken.
local FIELDS_OF_SEND = {'state', 'fence', 'account', 'kind', 'peer', 'queued', 'since', 'not_before', 'expires', 'waits',
  'windowed', 'place', 'at', 'attempts', 'code', 'text', 'vendor', 'replica', 'request', 'counted', 'digest', 'reply_to',
  'type', 'data'}
local LENGTHS_OF_SEND = '^' .. string.rep('(%d+),', #FIELDS_OF_SEND) .. '|()'
local LENGTHS_WRITTEN = string.rep('%d,', #FIELDS_OF_SEND) .. '|'

-- Behind the last field is the traceparent of what queued it, if that is recorded. Versions that do
-- not know it read a record without it, and write it so.

local function read_send(text)
  local lengths = {string.match(text or '', LENGTHS_OF_SEND)}
  local s, from = {}, lengths[#FIELDS_OF_SEND + 1]
  if not from then return nil end
  for i, field in ipairs(FIELDS_OF_SEND) do
    local length = lengths[i]
    if length == '0' then
      s[field] = ''
    else
      s[field] = sub(text, from, from + length - 1)
      from = from + length
    end
  end
  s.trace = sub(text, from)
  return s
end

local function written_send(s)
  local lengths, values = {}, {}
  for i, field in ipairs(FIELDS_OF_SEND) do
    local value = s[field] or ''
    lengths[i], values[i] = #value, value
  end
  return format(LENGTHS_WRITTEN, unpack(lengths)) .. table.concat(values) .. (s.trace or '')
end

local function get_send(box, id) return read_send(redis.call('HGET', box.sends, id)) end
local function put_send(box, id, s)
  local text = written_send(s)
  redis.call('HSET', box.sends, id, text)
  return text
end

local SEND_ID = 32 -- bytes
local FOR_EVER = '9999999999999'

-- What two bounds of a range by lex contain: everything that begins with a text.
local function within(text) return '[' .. text .. '\0', '(' .. text .. '\1' end

-- How many members of a ZSET begin with a text. Without the right to count them they are
-- counted up to some number only.
local function count_within(key, text, most)
  local first, after = within(text)
  local n = redis.pcall('ZLEXCOUNT', key, first, after)
  if type(n) == 'number' then return n end
  return #redis.call('ZRANGEBYLEX', key, first, after, 'LIMIT', '0', most)
end

-- How many keys or windows an account has is counted in names, because there may be many.
local function tally(box, group, account, by)
  local n = redis.call('HINCRBY', box.names, 'n' .. group .. account, by)
  if n <= 0 then redis.call('HDEL', box.names, 'n' .. group .. account) end
  return n
end

-- The index has all sends by account: group, account NUL when, and its id. The groups are
-- q, a and u, by when they were queued, and e by when they ended. Group k has idempotency
-- keys, account NUL when, and their digest; group w has windows, by their lines.
local GROUPS = {q = 'q', a = 'a', u = 'u'}
local function indexed(s, id)
  local group = GROUPS[s.state]
  return (group or 'e') .. s.account .. '\0' .. (group and s.queued or s.since) .. id
end
local function line_of(s) return s.account .. '\0' .. s.peer end

-- Beside that, the index has each send by time alone, so that lists are in one order: t,
-- group, when, and its id. Given a send's member by account, returns this one.
local function by_time(member) return 't' .. sub(member, 1, 1) .. sub(member, -SEND_ID - 13) end

local function index_send(box, s, id, also)
  local member = indexed(s, id)
  if also then
    redis.call('ZADD', box.index, '0', member, '0', by_time(member), '0', also)
  else
    redis.call('ZADD', box.index, '0', member, '0', by_time(member))
  end
end

local function unindex(box, member) redis.call('ZREM', box.index, member, by_time(member)) end

local function turn_to(box, id, s, state, now)
  local was = indexed(s, id)
  s.state, s.since = state, stamp(now)
  if indexed(s, id) ~= was then
    index_send(box, s, id)
    unindex(box, was)
  end
end

-- A time, unix ms, in RFC 3339. The years of this count begin in March.
local function rfc3339(ms)
  local floor = math.floor
  local days, second = floor(ms / 86400000) + 719468, floor(ms / 1000) % 86400
  local day = days % 146097 -- of 400 years
  local year = floor((day - floor(day / 1460) + floor(day / 36524) - floor(day / 146096)) / 365)
  day = day - 365 * year - floor(year / 4) + floor(year / 100)
  local month = floor((5 * day + 2) / 153)
  day = day - floor((153 * month + 2) / 5) + 1
  year = year + 400 * floor(days / 146097)
  if month < 10 then month = month + 3 else year, month = year + 1, month - 9 end
  return format('%04d-%02d-%02dT%02d:%02d:%02d.%03dZ', year, month, day, floor(second / 3600), floor(second / 60) % 60, second % 60, ms % 1000)
end

-- Tells the groups that have asked for events what became of a send, in the step that
-- made it so. Each gets a message of its own. Nothing is written for anybody else, and
-- telling never makes a step fail. A full Redis takes the message, because the step has
-- removed or written something before: see even_when_full. Only a stream whose ids are used
-- up refuses it, and such a stream takes nothing at all.
local function tell_event(box, event, id, s)
  local groups = redis.call('HGET', box.names, 'e')
  if not groups then return end
  local now = clock()
  local send = {id = id, account = s.account, kind = s.kind, to = s.peer, type = s.type, state = event,
    queued = rfc3339(tonumber(s.queued) or 0), attempts = tonumber(s.attempts) or 0}
  for name, value in pairs({reply_to = s.reply_to, code = s.code, reason = s.text, vendor_id = s.vendor}) do
    if value ~= '' then send[name] = value end
  end
  local data = cjson.encode(send)
  local trace = (s.trace or '') ~= '' and {'trace', s.trace} or {}
  for group in string.gmatch(groups, '%S+') do
    redis.pcall('XADD', box.messages, '*', 'account', s.account, 'kind', s.kind, 'id', id .. '.' .. event .. '.' .. stamp(now),
      'type', 'send.' .. event, 'time', rfc3339(now), 'data', data, 'group', group, 'event', '1', unpack(trace))
  end
end

-- A window is until when a peer may be answered, unix ms; how often, or -; since when; and
-- its token.
local function window_of(box, line, now)
  local text = redis.call('HGET', box.windows, line)
  local till, left, since, token = string.match(text or '', '^(%d+)|([%d-]+)|(%d+)|(.*)$')
  if not till then return nil end
  return {till = till, left = left, since = since, token = token, open = tonumber(till) > now and left ~= '0'}
end

local function put_window(box, line, w)
  redis.call('HSET', box.windows, line, w.till .. '|' .. w.left .. '|' .. w.since .. '|' .. w.token)
end

local function needs_window(s) return s.windowed == '1' or s.windowed == '2' end

-- Takes one from a window's count, or gives back one that was taken.
local function count_window(box, line, w, by)
  if w.left ~= '-' then
    w.left = format('%d', tonumber(w.left) + by)
    put_window(box, line, w)
  end
end

-- The lines ZSET has the queued sends of each peer, and the one under an attempt: line NUL
-- place, in ten digits, and its id. A new one comes after the last. The second result says
-- whether it is the only one.
local function next_place(box, line)
  local first, after = within(line)
  local last = redis.call('ZRANGE', box.line, after, first, 'BYLEX', 'REV', 'LIMIT', '0', '1')[1]
  return format('%010d', last and tonumber(sub(last, #line + 2, #line + 11)) + 1 or 1), not last
end

local function head_of(box, line)
  local first, after = within(line)
  local head = redis.call('ZRANGEBYLEX', box.line, first, after, 'LIMIT', '0', '1')[1]
  return head and sub(head, #line + 12), head
end

local function in_line(s, id) return line_of(s) .. '\0' .. s.place .. id end
local function in_due(s) return s.kind .. '\t' .. s.at .. line_of(s) end

-- Wakes the replicas that send: a send of this shard may be attempted now. The channel is
-- that of all wake-ups of the namespace.
local function wake_senders(box)
  redis.call('PUBLISH', string.match(box.sends, '^{([^:]*)') .. ':wake', 'send ' .. sub(box.sends, 1, -6))
end

-- Writes into a send that comes first in its line when it may be attempted. One that waits
-- for its window stands at the end of time.
local function set_due(box, s, line, now)
  s.at = s.not_before == '' and stamp(now) or s.not_before
  if needs_window(s) and s.waits == '1' then
    local w = window_of(box, line, now)
    if not (w and w.open) then s.at = FOR_EVER end
  end
end

-- Puts it where Attempt finds it.
local function stand_due(box, s, now)
  redis.call('ZADD', box.due, '0', in_due(s))
  if tonumber(s.at) <= now then wake_senders(box) end
end

-- Does both for the head of a line.
local function line_up(box, line, now)
  local id = head_of(box, line)
  local s = id and get_send(box, id)
  if not s or s.state ~= 'q' or s.at ~= '' then return end
  set_due(box, s, line, now)
  stand_due(box, s, now)
  put_send(box, id, s)
end

local function leave_due(box, s)
  if s.at ~= '' then redis.call('ZREM', box.due, in_due(s)) end
  s.at = ''
end

-- Takes a send out of its line, whose next one then comes first.
local function leave_line(box, id, s, now)
  leave_due(box, s)
  if s.place == '' then return end
  redis.call('ZREM', box.line, in_line(s, id))
  s.place = ''
  line_up(box, line_of(s), now)
end

local function ends_at(box, id, at)
  if at == '' then redis.call('ZREM', box.ends, id) else redis.call('ZADD', box.ends, format('%d', at), id) end
end

-- Queues a send again: at its old place, or last of its peer.
local function queue_again(box, id, s, now, last)
  turn_to(box, id, s, 'q', now)
  s.fence, s.replica, s.request, s.counted = '', '', '', ''
  if last then
    local was = s.place ~= '' and in_line(s, id)
    s.place = next_place(box, line_of(s))
    redis.call('ZADD', box.line, '0', in_line(s, id))
    if was then redis.call('ZREM', box.line, was) end
  end
  put_send(box, id, s)
  ends_at(box, id, s.expires)
  line_up(box, line_of(s), now)
end

-- Gives back what an attempt took from its window, if that is still the same one.
local function uncount(box, s, now)
  if s.counted == '' then return end
  local w = window_of(box, line_of(s), now)
  if w and w.till == s.counted then count_window(box, line_of(s), w, 1) end
  s.counted = ''
end

-- Forgets a send that has ended.
local function drop_send(box, id, s)
  redis.call('HDEL', box.sends, id)
  unindex(box, indexed(s, id))
  redis.call('ZREM', box.ends, id)
  if s.vendor ~= '' then redis.call('HDEL', box.names, 'v' .. s.account .. '\0' .. s.vendor) end
end

-- What has ended is remembered for so long, ms, and of each account no more than so many.
local SENDS_KEPT, MOST_ENDED = 604800000, '256'

local function end_send(box, id, s, state, now)
  turn_to(box, id, s, state, now)
  ends_at(box, id, now + SENDS_KEPT)
  leave_line(box, id, s, now)
  put_send(box, id, s)
  local first, after = within('e' .. s.account)
  if redis.call('ZRANGEBYLEX', box.index, first, after, 'LIMIT', MOST_ENDED, '1')[1] then
    local oldest = redis.call('ZRANGEBYLEX', box.index, first, after, 'LIMIT', '0', '1')[1]
    local gone = sub(oldest, -SEND_ID)
    local other = get_send(box, gone)
    if other then drop_send(box, gone, other) else unindex(box, oldest) end
  end
end

-- An attempt of which nobody knows how it went. It does not hold up its peer.
local function end_unknown(box, id, s, now)
  turn_to(box, id, s, 'u', now)
  redis.call('ZREM', box.ends, id)
  leave_line(box, id, s, now)
  put_send(box, id, s)
  tell_event(box, 'unknown', id, s)
end

local function end_expired(box, id, s, now)
  s.code, s.text = 'expired', ''
  end_send(box, id, s, 'x', now)
  tell_event(box, 'expired', id, s)
end

-- Writes what a found message says about answers to its peer, and lets a send go that
-- waits for it. A message that is no newer than the last one says nothing. An account has
-- at most MOST_WINDOWS.
local MOST_WINDOWS = 16384
local function open_window(box, now, account, peer, lasts, left, token)
  local line = account .. '\0' .. peer
  local was = window_of(box, line, now)
  if not was and tonumber(redis.call('HGET', box.names, 'nw' .. account) or 0) >= MOST_WINDOWS then return end
  local till = format('%.0f', now + tonumber(lasts))
  if was and tonumber(till) <= tonumber(was.till) then return end
  -- Within a second it may be the same message, found again: that refills nothing.
  if was and tonumber(till) - tonumber(was.till) < 1000 then left = was.left end
  put_window(box, line, {till = till, left = left, since = stamp(now), token = token})
  if not was then
    redis.call('ZADD', box.index, '0', 'w' .. line)
    tally(box, 'w', account, 1)
  end
  redis.call('ZADD', box.ends, till, 'w' .. line)
  local id = head_of(box, line)
  local s = id and get_send(box, id)
  if s and s.state == 'q' and s.at == FOR_EVER then
    leave_due(box, s)
    put_send(box, id, s)
    line_up(box, line, now)
  end
end

-- All groups of the index.
local ALL_GROUPS = {'q', 'a', 'u', 'e', 'w', 'k'}

local function members_of(box, group, account)
  local first, after = within(group .. account)
  return redis.call('ZRANGEBYLEX', box.index, first, after)
end

-- Removes all that a shard has of an account's sends. Each is called with what is removed.
local function remove_sends(box, account, each)
  for _, group in ipairs(ALL_GROUPS) do
    for _, member in ipairs(members_of(box, group, account)) do
      local ends = member
      if group == 'w' then
        redis.call('HDEL', box.windows, sub(member, 2))
      elseif group == 'k' then
        redis.call('HDEL', box.names, 'k' .. sub(member, -SEND_ID))
      else
        ends = sub(member, -SEND_ID)
        local s = get_send(box, ends)
        if s then
          if each then each(group, ends, s) end
          leave_due(box, s)
          if s.place ~= '' then redis.call('ZREM', box.line, in_line(s, ends)) end
          drop_send(box, ends, s)
        end
      end
      unindex(box, member)
      redis.call('ZREM', box.ends, ends)
    end
  end
  redis.call('HDEL', box.names, 'nk' .. account, 'nw' .. account)
end

-- Forgets an account's sends. What was queued is canceled, an attempt under way unknown.
local function forget_sends(box, account)
  remove_sends(box, account, function(group, id, s)
    if group == 'q' then tell_event(box, 'canceled', id, s) end
    if group == 'a' then tell_event(box, 'unknown', id, s) end
  end)
end

local function under_attempt(box, account)
  return count_within(box.index, 'a' .. account, 1) > 0
end

-- All that a shard has of an account's sends as one text, in threes, each LENGTH:VALUE: a
-- record's id and text, a key's member and what it names, a window's line and text. It is
-- '' if there is nothing.
local function packed_sends(box, account)
  local parts = {}
  local function add(...)
    for _, value in ipairs({...}) do parts[#parts + 1] = #value .. ':' .. value end
  end
  for _, group in ipairs(ALL_GROUPS) do
    for _, member in ipairs(members_of(box, group, account)) do
      if group == 'w' then
        add('w', sub(member, 2), redis.call('HGET', box.windows, sub(member, 2)) or '')
      elseif group == 'k' then
        add('k', member .. '\0' .. (redis.call('ZSCORE', box.ends, member) or '0'), redis.call('HGET', box.names, 'k' .. sub(member, -SEND_ID)) or '')
      else
        local id = sub(member, -SEND_ID)
        local record = redis.call('HGET', box.sends, id)
        if record then add('s', id, record) end
      end
    end
  end
  return table.concat(parts)
end

-- Puts into a shard what packed_sends took from another one. An attempt that was under
-- way, as in a backup, is unknown.
local function unpack_sends(box, text, now)
  local from, lines = 1, {}
  local function read()
    local colon = string.find(text, ':', from, true)
    local first = colon + 1
    from = first + tonumber(sub(text, from, colon - 1))
    return sub(text, first, from - 1)
  end
  while from <= #text do
    local what, name, value = read(), read(), read()
    if what == 'w' then
      local till = string.match(value, '^(%d+)|')
      if till then
        redis.call('HSET', box.windows, name, value)
        redis.call('ZADD', box.index, '0', 'w' .. name)
        tally(box, 'w', string.match(name, '^[^%z]*'), 1)
        redis.call('ZADD', box.ends, till, 'w' .. name)
      end
    elseif what == 'k' then
      local member, till = string.match(name, '^(.*)%z([%d.e+]+)$')
      redis.call('HSET', box.names, 'k' .. sub(member, -SEND_ID), value)
      redis.call('ZADD', box.index, '0', member)
      redis.call('ZADD', box.ends, till, member)
      tally(box, 'k', string.match(member, '^k([^%z]*)'), 1)
    else
      local s = read_send(value)
      if s then
        s.at = ''
        local lost = s.state == 'a'
        if lost then s.state, s.since, s.place = 'u', stamp(now), '' end
        put_send(box, name, s)
        index_send(box, s, name)
        if s.place ~= '' then
          redis.call('ZADD', box.line, '0', in_line(s, name))
          lines[line_of(s)] = true
        end
        if s.state == 'q' then
          if s.expires ~= '' then redis.call('ZADD', box.ends, s.expires, name) end
        elseif s.state ~= 'u' then
          redis.call('ZADD', box.ends, format('%.0f', tonumber(s.since) + SENDS_KEPT), name)
        end
        if s.vendor ~= '' then redis.call('HSET', box.names, 'v' .. s.account .. '\0' .. s.vendor, name) end
        if lost then tell_event(box, 'unknown', name, s) end
      end
    end
  end
  for line in pairs(lines) do line_up(box, line, now) end
end
