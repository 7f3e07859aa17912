-- forget: find accounts that remember messages but are not registered.
--
-- KEYS[1]  tickets  HASH  id -> current ticket and what follows it
-- then two for each id: known:ID and known_before:ID  SETs
-- ARGV[1]  1: they forget, 0: they are only found
-- then the ids
--
-- Returns the ids that are not registered.

local wrong = mistyped(KEYS[1], 'hash')
if wrong then return wrong end

local strangers = {}
for a = 2, #ARGV do
  if redis.call('HEXISTS', KEYS[1], ARGV[a]) == 0 then
    strangers[#strangers + 1] = ARGV[a]
    if ARGV[1] == '1' then redis.call('UNLINK', KEYS[2 * a - 2], KEYS[2 * a - 1]) end
  end
end
return strangers
