-- remove key: revoke a key.
--
-- KEYS[1]  records  HASH  as in add key
-- KEYS[2]  names    HASH  as in add key
-- KEYS[3]  used     HASH  as in add key
-- ARGV[1]  name
--
-- Returns the key's expiry and record, or '' if no key has the name.

local wrong = mistyped(KEYS[1], 'hash', KEYS[2], 'hash', KEYS[3], 'hash')
if wrong then return wrong end

local digest = redis.call('HGET', KEYS[2], ARGV[1])
if not digest then return '' end
local record = redis.call('HGET', KEYS[1], digest) or ''
-- The record is removed first: if this stops half way the key is revoked.
redis.call('HDEL', KEYS[1], digest)
redis.call('HDEL', KEYS[3], digest)
redis.call('HDEL', KEYS[2], ARGV[1])
return record
