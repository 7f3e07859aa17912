-- put periods: write documents of periods, each in place of the expected one; all of them or none.
--
-- KEYS[1]  the periods  HASH  level:place -> number|version|text
-- ARGV[1]  for how many ms all of them live from now
-- ARGV     for each document: its field, the number of its period, the version that it must
--          have (0: there must be none of this period), the text
--
-- Returns 1, or 0 if one has another version. A document of another period in its place is
-- old, or of a clock that was ahead, and goes. A repeated call finds what it wrote, and
-- returns 1 too.

local wrong = mistyped(KEYS[1], 'hash')
if wrong then return wrong end

local write = {}
for i = 2, #ARGV, 4 do
  local number, must = tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])
  local becomes = ARGV[i + 1] .. '|' .. format('%.0f', must + 1) .. '|' .. ARGV[i + 3]
  local kept = redis.call('HGET', KEYS[1], ARGV[i])
  if kept ~= becomes then
    local of, version = string.match(kept or '', '^(%d+)|(%d+)|')
    if tonumber(of or 0) ~= number then version = 0 end
    if tonumber(version or 0) ~= must then return 0 end
    write[#write + 1] = ARGV[i]
    write[#write + 1] = becomes
  end
end
if #write > 0 then redis.call('HSET', KEYS[1], unpack(write)) end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return 1
