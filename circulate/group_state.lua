-- state: how far a group has read in a shard.
--
-- KEYS[1]  messages  STREAM
-- KEYS[2]  dead      STREAM
-- KEYS[3]  leases    HASH
-- ARGV[1]  the group
--
-- Returns now (unix ms), how many messages it has not read, how many are pending, how
-- many dead letters the shard has, the last position read, the first unread position and
-- the first pending one ('' if there is none), and the lease's holder; or only now if
-- there is no such group.

local stream, group, now = KEYS[1], ARGV[1], clock()
local groups, wrong = groups_of(stream)
if wrong then return wrong end
local found = groups[group]
if not found then return { now } end

local last = found['last-delivered-id']
local unread = redis.call('XRANGE', stream, '(' .. last, '+', 'COUNT', 1)[1]
local lag = 0
if unread then
  local counts, n = count_from(stream, { unread[1] })
  lag = lag_of(stream, found, counts[unread[1]], n)
end
local pending = redis.call('XPENDING', stream, group)
local lease = redis.call('HGET', KEYS[3], group) or ''
return { now, lag, pending[1], redis.call('XLEN', KEYS[2]), last, unread and unread[1] or '', pending[2] or '', sub(lease, 30) }
