-- attempt send: note that sends are on their way, before their first byte leaves.
--
-- KEYS[1…8]  the outbox: see sends.lua
-- KEYS[9]    ticket_seq    STRING
-- KEYS[10]   ticket_mark   STRING
-- KEYS[11]   accounts      HASH    id -> record
-- KEYS[12]   park_reasons  HASH    id -> reason
-- KEYS[13]   leaving       STRING  until when nothing is taken, as accounts go to other shards
-- ARGV[1]   the replica that sends
-- ARGV[2]   its name for this step
-- ARGV[3]   how many sends, at most
-- ARGV[4]   how long an attempt may last, ms: it is unknown after that
-- ARGV[5]   the same for one whose data names a file
-- ARGV[6]   the reason of accounts whose sends wait
-- ARGV[7]   after how long they are looked at again, ms
-- then the kinds whose sends it makes
--
-- Returns {now, when the next is due or -1, then five for each send: id, record, fence,
-- the token of its window, its account's record}.

local box, sequence, accounts, reasons, leaving = outbox(1), {KEYS[9], KEYS[10]}, KEYS[11], KEYS[12], KEYS[13]
local wrong = outbox_mistyped(box)
  or mistyped(KEYS[9], 'string', KEYS[10], 'string', accounts, 'hash', reasons, 'hash', leaving, 'string')
if wrong then return wrong end

local replica, request, want, lasts, with_file = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local now = clock()
local till = tonumber(redis.call('GET', leaving)) or 0
if till > now and till - now <= 10000 then return {now, till} end
-- It was withdrawn before it came.
if redis.call('HEXISTS', box.names, 'r' .. request) == 1 then return {now, -1} end

even_when_full(box.sends)
local answer, looked = {now, -1}, 4 * want
local fence
for k = 8, #ARGV do
  local kind = ARGV[k]
  local from, to = '[' .. kind .. '\t', '(' .. kind .. '\t' .. stamp(now + 1)
  while want > 0 and looked > 0 do
    local member = redis.call('ZRANGEBYLEX', box.due, from, to, 'LIMIT', '0', '1')[1]
    if not member then break end
    looked = looked - 1
    redis.call('ZREM', box.due, member)
    local line = sub(member, #kind + 15)
    local id, head = head_of(box, line)
    local s = id and get_send(box, id)
    if not s then
      if id then redis.call('ZREM', box.line, head) end -- its record is lost
      line_up(box, line, now)
    elseif s.state == 'q' then
      s.at = ''
      local w = needs_window(s) and window_of(box, line, now)
      if s.expires ~= '' and tonumber(s.expires) <= now then
        end_expired(box, id, s, now)
      elseif redis.call('HGET', reasons, s.account) == ARGV[6] then
        s.at = stamp(now + tonumber(ARGV[7]))
        redis.call('ZADD', box.due, '0', in_due(s))
        put_send(box, id, s)
      elseif needs_window(s) and not (w and w.open) and s.waits == '1' then
        put_send(box, id, s)
        line_up(box, line, now)
      elseif needs_window(s) and not (w and w.open) then
        s.code, s.text = 'window', 'the window closed before the send'
        end_send(box, id, s, 'n', now)
        tell_event(box, 'rejected', id, s)
      else
        fence = fence or take_ticket(sequence, now) .. request
        turn_to(box, id, s, 'a', now)
        s.fence, s.replica, s.request, s.attempts = fence, replica, request, format('%d', tonumber(s.attempts) + 1)
        if w and s.windowed == '1' then
          s.counted = w.till
          count_window(box, line, w, -1)
        end
        local record = put_send(box, id, s)
        ends_at(box, id, now + (string.find(s.data, '"file"', 1, true) and with_file or lasts))
        local n = #answer
        answer[n + 1], answer[n + 2], answer[n + 3] = id, record, fence
        answer[n + 4], answer[n + 5] = w and w.token or '', redis.call('HGET', accounts, s.account) or ''
        want = want - 1
      end
    end
  end
  local first = redis.call('ZRANGEBYLEX', box.due, from, '(' .. kind .. '\n', 'LIMIT', '0', '1')[1]
  local at = first and sub(first, #kind + 2, #kind + 14)
  if at and at ~= FOR_EVER and (answer[2] == -1 or tonumber(at) < answer[2]) then answer[2] = tonumber(at) end
end
return answer
