-- pack send: all that a shard has of an account's sends, for a backup. It writes nothing.
--
-- KEYS[1…8]  the outbox: see sends.lua
-- ARGV[1]   the account
--
-- Returns it as one text, '' if there is nothing.

local box = outbox(1)
local wrong = outbox_mistyped(box)
if wrong then return wrong end

return packed_sends(box, ARGV[1])
