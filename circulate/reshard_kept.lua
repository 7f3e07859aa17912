-- kept: look at some of the copies of accounts that have arrived.
--
-- KEYS[1]  departed  HASH  generation.target:number -> when|accounts
-- ARGV[1]  where to go on; 0 at first
-- ARGV[2]  about how many to look at
-- ARGV[3]  how old a copy must be, ms
--
-- Returns where to go on, 0 at the end; how many bytes the younger copies have; and for
-- each other copy its field and the id of its first account.

local wrong = mistyped(KEYS[1], 'hash')
if wrong then return wrong end

local now, age, young = clock(), tonumber(ARGV[3]), 0
local page = redis.call('HSCAN', KEYS[1], ARGV[1], 'COUNT', ARGV[2])
local answer = {page[1], 0}
for i = 1, #page[2], 2 do
  local field, copy = page[2][i], page[2][i + 1]
  local since = tonumber(sub(copy, 1, 13))
  -- A copy from the future was written before the clock went back.
  if since and since <= now and now - since < age then
    young = young + #field + #copy
  else
    local colon = string.find(copy, ':', 15, true) or 14
    answer[#answer + 1] = field
    answer[#answer + 1] = sub(copy, colon + 1, colon + (tonumber(sub(copy, 15, colon - 1)) or 0))
  end
end
answer[2] = young
return answer
