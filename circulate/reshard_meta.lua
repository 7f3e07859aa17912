-- layout: change a namespace's meta, if it is as the caller saw it.
--
-- KEYS[1]  meta  HASH
-- ARGV     fields, three each: its name, what it must be, what it becomes; ''
--          is a field that is not there
--
-- Returns 1 if it was changed, now or before, otherwise 0.

local meta = KEYS[1]
local wrong = mistyped(meta, 'hash')
if wrong then return wrong end

local before, after = true, true
for a = 1, #ARGV, 3 do
  local value = redis.call('HGET', meta, ARGV[a]) or ''
  before = before and value == ARGV[a + 1]
  after = after and value == ARGV[a + 2]
end
if after then return 1 end
if not before then return 0 end
even_when_full(meta)
for a = 1, #ARGV, 3 do
  if ARGV[a + 2] ~= '' then redis.call('HSET', meta, ARGV[a], ARGV[a + 2]) end
end
for a = 1, #ARGV, 3 do
  if ARGV[a + 2] == '' then redis.call('HDEL', meta, ARGV[a]) end
end
return 1
