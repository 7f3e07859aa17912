-- set aside: rename the keys that have a wrong type.
--
-- KEYS  a shard's keys, then a new name for each
-- ARGV  the type that each key must have
--
-- Returns the new names of the keys that were renamed.

local moved = {}
for i, want in ipairs(ARGV) do
  local is = redis.call('TYPE', KEYS[i])
  is = is.ok or is
  if is ~= want and is ~= 'none' then
    redis.call('RENAME', KEYS[i], KEYS[#ARGV + i])
    moved[#moved + 1] = KEYS[i]
  end
end
return moved
