-- turn: what a due account waits behind, at one moment.
--
-- KEYS[1]  tickets  HASH  id -> current ticket
-- KEYS[2]  states   HASH  id -> what its cadence keeps
-- KEYS[3]  message_queue:urgent  LIST
-- KEYS[4]  message_queue         LIST
-- KEYS[5]  message_queue:low     LIST
-- KEYS[6]  message_queue:by_kind ZSET
-- ARGV[1]  id
-- ARGV[2]  how many entries of each lane are looked through
--
-- Returns {1 if it is registered, otherwise 0, its state or '', entries in the
-- three lanes, the lane that it waits in, 1 to 3, 4 if it waits by its kind, or 0,
-- its entry there or '', how many are taken before it, the kind that it waits by or ''}.

local tickets, states = KEYS[1], KEYS[2]
local id, depth = ARGV[1], tonumber(ARGV[2])

local ticket = redis.call('HGET', tickets, id)
local answer = {ticket and 1 or 0, redis.call('HGET', states, id) or '',
  redis.call('LLEN', KEYS[3]), redis.call('LLEN', KEYS[4]), redis.call('LLEN', KEYS[5]), 0, '', 0, ''}
if not ticket then return answer end
for lane = 1, 3 do
  local entries = redis.call('LRANGE', KEYS[2 + lane], -depth, -1)
  for i = #entries, 1, -1 do
    local entry = entries[i]
    if sub(entry, ID) == id and ticket_of(entry) == ticket_of(ticket) then
      answer[6], answer[7], answer[8] = lane, entry, #entries - i
      return answer
    end
  end
end
local ahead = {}
for _, member in ipairs(redis.call('ZRANGE', KEYS[6], 0, depth - 1)) do
  local kind, entry = kind_of(member), entry_of(member)
  if sub(entry, ID) == id and ticket_of(entry) == ticket_of(ticket) then
    answer[6], answer[7], answer[8], answer[9] = 4, entry, ahead[kind] or 0, kind
    return answer
  end
  ahead[kind] = (ahead[kind] or 0) + 1
end
return answer
