-- load send: put the sends of an account of a backup into its shard. What was under an
-- attempt is unknown.
--
-- KEYS[1…8]  the outbox: see sends.lua
-- KEYS[9]    tickets  HASH  id -> current ticket
-- ARGV[1]   the account
-- ARGV[2]   what pack returned
--
-- Returns 1 if they are there now, 0 if the account is not registered.

local box, tickets = outbox(1), KEYS[9]
local wrong = outbox_mistyped(box) or mistyped(tickets, 'hash')
if wrong then return wrong end

if redis.call('HEXISTS', tickets, ARGV[1]) == 0 then return 0 end
for _, group in ipairs(ALL_GROUPS) do
  if #members_of(box, group, ARGV[1]) > 0 then return 1 end -- it was done before
end
unpack_sends(box, ARGV[2], clock())
return 1
