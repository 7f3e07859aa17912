-- cancel send: a queued send is not to be sent any more.
--
-- KEYS[1…8]  the outbox: see sends.lua
-- ARGV[1]   its id
--
-- Returns its record as it then is, or '' if there is none. Only a queued send changes.

local box = outbox(1)
local wrong = outbox_mistyped(box)
if wrong then return wrong end

local s = get_send(box, ARGV[1])
if not s then return '' end
if s.state == 'q' then
  even_when_full(box.sends)
  end_send(box, ARGV[1], s, 'c', clock())
end
return redis.call('HGET', box.sends, ARGV[1]) or ''
