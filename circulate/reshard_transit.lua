-- transit: read the accounts that are on their way, with what they remember.
--
-- KEYS[1]  departures  HASH  generation.target:number -> accounts
-- KEYS[2]  known_away  HASH  generation.target:number -> what these accounts remember
--
-- Returns, as depart does, for each batch: field, accounts, what they remember.

local wrong = mistyped(KEYS[1], 'hash', KEYS[2], 'hash')
if wrong then return wrong end

local answer, n = {}, 0
local batches = redis.call('HGETALL', KEYS[1])
for i = 1, #batches, 2 do
  answer[n + 1], answer[n + 2], answer[n + 3] = batches[i], batches[i + 1], redis.call('HGET', KEYS[2], batches[i]) or ''
  n = n + 3
end
return answer
