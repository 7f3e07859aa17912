-- add key: make a key known to the API.
--
-- KEYS[1]  records  HASH  digest -> when it expires, unix ms, 0: never; a space; the record
-- KEYS[2]  names    HASH  name -> digest
-- KEYS[3]  used     HASH  digest -> about when it was last used, unix ms
-- ARGV[1]  digest
-- ARGV[2]  name
-- ARGV[3]  when it expires, unix ms, 0: never
-- ARGV[4]  record
-- ARGV[5]  the most keys that there may be
--
-- Returns 1; 0 if another key has the name; -1 if there are too many keys and none has
-- expired. Expired keys are removed to make room.

local wrong = mistyped(KEYS[1], 'hash', KEYS[2], 'hash', KEYS[3], 'hash')
if wrong then return wrong end

local has = redis.call('HGET', KEYS[2], ARGV[2])
if has and has ~= ARGV[1] and redis.call('HEXISTS', KEYS[1], has) == 1 then return 0 end
local most = tonumber(ARGV[5])
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 and redis.call('HLEN', KEYS[1]) >= most then
  local now, gone = clock(), {}
  local all = redis.call('HGETALL', KEYS[1])
  for i = 1, #all, 2 do
    local expires = tonumber(string.match(all[i + 1], '^(%d+) ')) or 0
    if expires > 0 and expires <= now then gone[all[i]] = true end
  end
  if not next(gone) then return -1 end
  local names = redis.call('HGETALL', KEYS[2])
  for i = 1, #names, 2 do
    if gone[names[i + 1]] then redis.call('HDEL', KEYS[2], names[i]) end
  end
  for i = 1, #all, 2 do
    if gone[all[i]] then
      redis.call('HDEL', KEYS[1], all[i])
      redis.call('HDEL', KEYS[3], all[i])
    end
  end
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3] .. ' ' .. ARGV[4])
redis.call('HSET', KEYS[2], ARGV[2], ARGV[1])
return 1
