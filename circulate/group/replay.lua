-- replay: put a dead letter back into the stream, for the group that could not handle it.
-- Its fields are the message's, the group, and as origin the position of the original
-- message.
--
-- KEYS[1]  dead      STREAM
-- KEYS[2]  messages  STREAM
-- ARGV[1]  the dead letter's position
--
-- Returns its new position, or '' if there is no such dead letter.

local wrong = mistyped(KEYS[1], 'stream', KEYS[2], 'stream')
if wrong then return wrong end

local entry = redis.call('XRANGE', KEYS[1], ARGV[1], ARGV[1])[1]
if not entry then return '' end
local about = { ['for'] = true, error = true, deliveries = true, position = true, group = true }
local fields, group, position, origin, v = {}, '', '', nil, entry[2]
for i = 1, #v, 2 do
  if v[i] == 'for' then group = v[i + 1] end
  if v[i] == 'position' then position = v[i + 1] end
  if v[i] == 'origin' then origin = v[i + 1] end
  if not about[v[i]] then fields[#fields + 1], fields[#fields + 2] = v[i], v[i + 1] end
end
fields[#fields + 1], fields[#fields + 2] = 'group', group
if not origin then fields[#fields + 1], fields[#fields + 2] = 'origin', position end
local replayed = redis.call('XADD', KEYS[2], '*', unpack(fields))
redis.call('XDEL', KEYS[1], ARGV[1])
return replayed
