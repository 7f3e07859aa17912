-- credential: shared by all scripts of credentials; it comes after entry.lua.

local TIMES, PAUSED = {'expires', 'refresh', 'lease', 'refused', 'failed', 'dropped'}, {'until'}

-- Moves the times in some fields of a HASH back if Redis' clock went back behind the time
-- of their last write.
local function rewind(key, fields, now)
  local ahead = (tonumber(redis.call('HGET', key, 'seen') or '') or 0) - now
  if ahead <= 1000 then return end
  for _, field in ipairs(fields) do
    local at = tonumber(redis.call('HGET', key, field) or '')
    if at then redis.call('HSET', key, field, format('%.0f', math.max(1, at - ahead))) end
  end
  redis.call('HSET', key, 'seen', format('%.0f', now))
end
