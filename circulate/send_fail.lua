-- fail send: the vendor says that it could not deliver what it had accepted.
--
-- KEYS[1…8]  the outbox: see sends.lua
-- ARGV[1]   the account
-- ARGV[2]   the vendor's id of the send, or ours
-- ARGV[3], ARGV[4]  code, text
--
-- Returns the send's id, or '' if the account has none with that id. The vendor knows it,
-- so it had accepted a send that is unknown here, or whose attempt is not settled yet.

local box = outbox(1)
local wrong = outbox_mistyped(box)
if wrong then return wrong end

local id = redis.call('HGET', box.names, 'v' .. ARGV[1] .. '\0' .. ARGV[2]) or ARGV[2]
local s = get_send(box, id)
if not s or s.account ~= ARGV[1] then return '' end
if s.state == 'y' or s.state == 'u' or s.state == 'a' then
  even_when_full(box.sends)
  s.code, s.text = ARGV[3], ARGV[4]
  end_send(box, id, s, 'f', clock())
  tell_event(box, 'failed', id, s)
end
return id
