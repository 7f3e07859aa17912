-- queue send: take a send over, as the last of its peer.
--
-- KEYS[1…8]  the outbox: see sends.lua
-- KEYS[9]    tickets  HASH  id -> current ticket
-- ARGV[1]   its id
-- ARGV[2]   the digest of its account and idempotency key, or '' if it has no key
-- ARGV[3]   the digest of what is to be sent
-- ARGV[4…6] account, kind, peer
-- ARGV[7]   after when it must not go, unix ms, or ''
-- ARGV[8]   1 if it waits for its window, otherwise 0
-- ARGV[9]   1 if it needs its peer's window, 2 if it then takes nothing from the window's
--           count, otherwise 0
-- ARGV[10…12] the message that it answers or '', type, data
-- ARGV[13]  how many sends that have not ended an account may have
-- ARGV[14]  how many the shard may have that are queued or under an attempt
-- ARGV[15], ARGV[16]  how long a key is remembered, ms, and how many of each account
-- ARGV[17]  the traceparent of what queues it, or ''
--
-- A Redis at its memory limit refuses it, before anything is written.
--
-- Returns a letter and more: q ID RECORD queued · s ID RECORD it was there · g ID it was
-- there, and has ended long ago · c ID another one has its key · n the account is not
-- registered · b and s are: a the account has too many, f the shard has · o UNTIL LEFT it
-- is outside its window, '' = none · x it has expired

local box, now = outbox(1), clock()
local id, digest, body, account, kind, peer, expires = unpack(ARGV, 1, 7)
local waits, windowed = ARGV[8], ARGV[9]

-- The same id is the same send too: a caller repeats a step whose reply was lost.
local registered = redis.pcall('HEXISTS', KEYS[9], account)
local by_key = digest ~= '' and redis.pcall('HGET', box.names, 'k' .. digest)
local known = type(by_key) == 'string' and sub(by_key, 1, SEND_ID) or id
local there = redis.pcall('HGET', box.sends, known)
local waiting = redis.pcall('ZCARD', box.line)
-- A key that was read has the right type. To ask for the types of all costs more than to read.
local wrong = failed(registered, by_key, there, waiting) or mistyped(box.due, 'zset', box.index, 'zset', box.ends, 'zset')
  or windowed ~= '0' and mistyped(box.windows, 'hash')
if wrong then return wrong end
if registered == 0 then return {'n'} end
if by_key or there then
  local was = by_key and sub(by_key, SEND_ID + 1) or read_send(there).digest
  if was ~= body then return {'c', known} end
  return there and {'s', known, there} or {'g', known}
end

if expires ~= '' and tonumber(expires) <= now then return {'x'} end
local most = ARGV[13]
local all = count_within(box.index, 'u' .. account, most)
if all + waiting >= tonumber(most) then -- otherwise the account has too few, even if all that wait are its own
  all = all + count_within(box.index, 'q' .. account, most) + count_within(box.index, 'a' .. account, most)
  if all >= tonumber(most) then return {'a'} end
end
if waiting >= tonumber(ARGV[14]) then return {'f'} end
local line = account .. '\0' .. peer
if windowed ~= '0' and waits == '0' then
  local w = window_of(box, line, now)
  local full = not w or not w.open
  if not full and windowed == '1' and w.left ~= '-' then
    -- Those before it in the line take from the count as well, except one under an attempt,
    -- which has taken already.
    local left, first, after = tonumber(w.left), within(line)
    full = count_within(box.line, line, most) >= left
    if full then
      for _, member in ipairs(redis.call('ZRANGEBYLEX', box.line, first, after, 'LIMIT', 0, most)) do
        local before = get_send(box, sub(member, #line + 12))
        if not before or before.windowed ~= '2' and before.state == 'q' then left = left - 1 end
        if left <= 0 then break end
      end
      full = left <= 0
    end
  end
  if full then return {'o', w and w.till or '', w and w.left or ''} end
end

local place, alone = next_place(box, line)
local s = {state = 'q', account = account, kind = kind, peer = peer, queued = stamp(now), since = stamp(now), expires = expires,
  waits = waits, windowed = windowed, at = '', not_before = '', attempts = '0', digest = body, reply_to = ARGV[10], type = ARGV[11], data = ARGV[12],
  place = place, trace = ARGV[17]}
if alone then set_due(box, s, line, now) end
local record = put_send(box, id, s) -- a full Redis refuses this
local key = digest ~= '' and 'k' .. account .. '\0' .. stamp(now) .. digest
index_send(box, s, id, key)
redis.call('ZADD', box.line, '0', in_line(s, id))
if expires ~= '' then redis.call('ZADD', box.ends, expires, id) end
if key then
  redis.call('HSET', box.names, 'k' .. digest, id .. body)
  redis.call('ZADD', box.ends, stamp(now + tonumber(ARGV[15])), key)
  if tally(box, 'k', account, '1') > tonumber(ARGV[16]) then
    local first, after = within('k' .. account)
    local oldest = redis.call('ZRANGEBYLEX', box.index, first, after, 'LIMIT', '0', '1')[1]
    redis.call('HDEL', box.names, 'k' .. sub(oldest, -SEND_ID))
    redis.call('ZREM', box.index, oldest)
    redis.call('ZREM', box.ends, oldest)
    tally(box, 'k', account, -1)
  end
end
if alone then stand_due(box, s, now) end
return {'q', id, record}
