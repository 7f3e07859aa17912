-- group: shared by all scripts of consumer groups; it comes after entry.lua.

-- The fields of a message, in the order of replies.
local FIELDS = { 'account', 'kind', 'id', 'type', 'time', 'data', 'group' }

-- Reports whether the consumer has the lease under the token: a server that lost its last
-- writes may have issued the token twice. A lease that has used a quarter of its time is
-- renewed.
local function holds(leases, group, token, consumer, ttl, now)
  local lease = redis.call('HGET', leases, group)
  if not lease or sub(lease, 1, 14) ~= token or sub(lease, 30) ~= consumer then return false end
  local left = tonumber(sub(lease, 16, 28)) - now
  if left < 0.75 * ttl or left > ttl then
    even_when_full(leases) -- messages that consumers have handled can be trimmed
    redis.call('HSET', leases, group, token .. '|' .. stamp(now + ttl) .. '|' .. consumer)
  end
  return true
end

-- Puts a message after the first n of out: its position and its fields. A tab follows the
-- group of an event, and then, of a message that is traced, a new line and the traceparent.
local function flatten(out, n, position, v)
  out[n + 1] = position
  if v[1] == 'account' and v[3] == 'kind' and v[5] == 'id' and v[7] == 'type' and v[9] == 'time' and v[11] == 'data' and not v[13] then
    out[n + 2], out[n + 3], out[n + 4], out[n + 5], out[n + 6], out[n + 7], out[n + 8] = v[2], v[4], v[6], v[8], v[10], v[12], ''
  else
    local values = {}
    for i = 1, #v, 2 do values[v[i]] = v[i + 1] end
    for i, field in ipairs(FIELDS) do out[n + 1 + i] = values[field] or '' end
    if values.event then out[n + 8] = out[n + 8] .. '\t' end
    if values.trace then out[n + 8] = out[n + 8] .. '\n' .. values.trace end
  end
  return n + 8
end

-- Returns which of the positions, in the stream's order, are pending.
local function pending_of(stream, group, positions)
  local n = #positions
  local pending, limit = {}, 2 * n + 16
  local seen = redis.call('XPENDING', stream, group, positions[1], positions[n], limit)
  for _, p in ipairs(seen) do pending[p[1]] = true end
  if #seen == limit then
    -- There are many others in between, so the others are looked up one by one.
    for _, position in ipairs(positions) do
      if not pending[position] and redis.call('XPENDING', stream, group, position, position, 1)[1] then
        pending[position] = true
      end
    end
  end
  return pending
end

-- Returns a stream's groups, name -> fields as XINFO returns them. It returns none if
-- there is no stream, and nil and the error if the key has another type.
local function groups_of(stream)
  local infos, groups = redis.pcall('XINFO', 'GROUPS', stream), {}
  if infos.err then
    if sub(infos.err, 1, 9) == 'WRONGTYPE' then return nil, infos end
    return groups
  end
  for _, info in ipairs(infos) do
    local fields = {}
    for i = 1, #info, 2 do fields[info[i]] = info[i + 1] end
    groups[fields.name] = fields
  end
  return groups
end

-- Returns the last position that a stream has issued. For a stream that never had an
-- entry the embedded server returns ''.
local function end_of(stream)
  local info = redis.call('XINFO', 'STREAM', stream)
  for i = 1, #info, 2 do
    if info[i] == 'last-generated-id' and info[i + 1] ~= '' then return info[i + 1] end
  end
  return '0-0'
end

-- Removes a consumer's name from a group, unless messages are pending under it, which
-- Redis would drop.
local function forget(stream, group, consumer)
  if redis.call('XPENDING', stream, group, '-', '+', 1, consumer)[1] then return false end
  redis.call('XGROUP', 'DELCONSUMER', stream, group, consumer)
  return true
end

-- Returns how many messages a stream has from each of some positions on, position ->
-- number, and how many it has counted: a missing position has more than that. XINFO's lag
-- cannot be used. A Redis that restarts from its AOF, and a replica, forget how much a
-- group had read, and an embedded server never knows. So this counts from the end, until
-- it has met all positions, or 256 messages, or about 256 KiB.
local function count_from(stream, positions)
  local wanted, left = {}, 0
  for _, position in ipairs(positions) do
    if not wanted[position] then wanted[position], left = true, left + 1 end
  end
  local counts, n, bytes, from = {}, 0, 0, '+'
  while left > 0 and n < 256 and bytes < 262144 do
    local some = redis.call('XREVRANGE', stream, from, '-', 'COUNT', 16)
    for _, entry in ipairs(some) do
      n = n + 1
      if wanted[entry[1]] then counts[entry[1]], left = n, left - 1 end
      for _, value in ipairs(entry[2]) do bytes = bytes + #value end
    end
    if #some < 16 then break end
    from = '(' .. some[16][1]
  end
  return counts, n
end

-- Returns how many messages a group has not read, given its fields from XINFO. They are
-- counted from the end, if they are few enough. Otherwise it is Redis' number, but more
-- than were counted and no more than there are.
local function lag_of(stream, fields, counted, n)
  if counted then return counted end
  local most = redis.call('XLEN', stream)
  return math.max(math.min(tonumber(fields.lag or '') or most, most), n + 1)
end
