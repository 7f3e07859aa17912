-- look: what the ring knows about some accounts.
--
-- KEYS[1]  tickets          HASH
-- KEYS[2]  accounts         HASH
-- KEYS[3]  schedule         ZSET
-- KEYS[4]  parked           ZSET
-- KEYS[5]  park_reasons     HASH
-- KEYS[6]  failures         HASH
-- KEYS[7]  strikes          HASH
-- KEYS[8]  processing_list  LIST
-- KEYS[9]  nudges           HASH
-- KEYS[10] errors           HASH
-- KEYS[11] states           HASH
-- ARGV     ids
--
-- Returns {now, then for each id: {} if it is not registered, otherwise {record, due or
-- '', parked at or '', reason, failures, strikes, entry, what follows its ticket, nudge,
-- error, state}}, the entry being the account's in processing_list, or ''.

local tickets, accounts, schedule, parked = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local reasons, failures, strikes, processing = KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local nudges, errors, states = KEYS[9], KEYS[10], KEYS[11]

local wrong = mistyped(tickets, 'hash', accounts, 'hash', schedule, 'zset', parked, 'zset', reasons, 'hash',
  failures, 'hash', strikes, 'hash', processing, 'list', nudges, 'hash', errors, 'hash', states, 'hash')
if wrong then return wrong end

local held
local function claimed(id, ticket)
  if not held then
    held = {}
    for _, entry in ipairs(redis.call('LRANGE', processing, 0, -1)) do held[ticket_of(entry) .. sub(entry, ID)] = entry end
  end
  return held[ticket_of(ticket) .. id] or ''
end

local answer = {clock()}
for i, id in ipairs(ARGV) do
  local ticket = redis.call('HGET', tickets, id)
  if not ticket then
    answer[i + 1] = {}
  else
    local due = redis.call('ZSCORE', schedule, id)
    local since = redis.call('ZSCORE', parked, id)
    answer[i + 1] = {
      redis.call('HGET', accounts, id) or '',
      due or '', since or '',
      redis.call('HGET', reasons, id) or '',
      redis.call('HGET', failures, id) or '0',
      redis.call('HGET', strikes, id) or '0',
      not due and not since and claimed(id, ticket) or '',
      sub(ticket, 15, 32),
      redis.call('HGET', nudges, id) or '',
      redis.call('HGET', errors, id) or '',
      redis.call('HGET', states, id) or '',
    }
  end
end
return answer
