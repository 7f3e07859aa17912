-- put job: write a job's document in place of the one before, and with it one of its chunks.
--
-- KEYS[1]  jobs    HASH  id -> version|document
-- KEYS[2]  chunks  HASH  the job's: name -> text
-- ARGV[1]  the job's id
-- ARGV[2]  the version that it must have; 0: it must not exist
-- ARGV[3]  the document; '': remove the job and its chunks
-- ARGV[4]  how many jobs there may be
-- ARGV[5]  for how many ms its chunks live from now; 0: remove them
-- ARGV[6]  the name of a chunk to write; '': none
-- ARGV[7]  its text
--
-- Returns 1, or 0 if it has another version, or -1 if there are too many jobs. A repeated
-- call finds what it wrote, and returns 1 too.

local wrong = mistyped(KEYS[1], 'hash', KEYS[2], 'hash')
if wrong then return wrong end

local id, must, text = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local kept = redis.call('HGET', KEYS[1], id)
local version = kept and tonumber(string.match(kept, '^(%d+)|') or '') or 0
if text == '' then
  if kept and version ~= must then return 0 end
  redis.call('HDEL', KEYS[1], id)
  redis.call('DEL', KEYS[2])
  return 1
end
local becomes = format('%.0f', must + 1) .. '|' .. text
if version ~= must and kept ~= becomes then return 0 end
if not kept and redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[4]) then return -1 end
-- The chunk is written first: a document must not name a chunk that a full Redis refused.
if ARGV[6] ~= '' then redis.call('HSET', KEYS[2], ARGV[6], ARGV[7]) end
redis.call('HSET', KEYS[1], id, becomes)
if ARGV[5] == '0' then
  redis.call('DEL', KEYS[2])
else
  redis.call('PEXPIRE', KEYS[2], ARGV[5])
end
return 1
