-- resolve send: somebody decides what became of an unknown send, or sends a rejected one
-- again.
--
-- KEYS[1…8]  the outbox: see sends.lua
-- ARGV[1]   its id
-- ARGV[2]   the fence under which the caller saw it
-- ARGV[3]   y it was accepted, n it was not, q it is to be sent again, last of its peer
-- ARGV[4…6] code, text, the vendor's id
-- ARGV[7]   for q: after when it must not go, unix ms, or ''
--
-- Returns {1 if it is so now, otherwise 0; its record, or '' if there is none}.

local box = outbox(1)
local wrong = outbox_mistyped(box)
if wrong then return wrong end

local id, to = ARGV[1], ARGV[3]
local s = get_send(box, id)
if not s then return {'0', ''} end
local done = s.fence == ARGV[2] and (s.state == 'u' or s.state == 'n' and to == 'q')
if done then
  even_when_full(box.sends)
  local now = clock()
  s.code, s.text = ARGV[4], ARGV[5]
  if to == 'q' then
    s.expires, s.not_before = ARGV[7], ''
    queue_again(box, id, s, now, true)
  else
    if ARGV[6] ~= '' then
      s.vendor = ARGV[6]
      redis.call('HSET', box.names, 'v' .. s.account .. '\0' .. s.vendor, id)
    end
    end_send(box, id, s, to, now)
    tell_event(box, to == 'y' and 'accepted' or 'rejected', id, s)
  end
end
return {done and '1' or '0', redis.call('HGET', box.sends, id)}
