-- look send: how the sends of an account stand, with its latest ones, and write nothing.
--
-- KEYS[1…8]  the outbox: see sends.lua
-- ARGV[1]   the account
-- ARGV[2]   how many of the latest sends, at most, in each group
-- ARGV[3]   '' for sends to any peer, or the only peer
-- ARGV[4]   how many peers, at most
-- ARGV[5…]  peers to tell of in any case
--
-- Returns {now, how many are unknown, since when the first of them is or '', how many
-- windows there are, pairs: id and record, fours: peer, how many are in its line, 1 if the
-- first of these waits for its window, window or ''}.

local box = outbox(1)
local wrong = outbox_mistyped(box)
if wrong then return wrong end

local LOOKED = 256 -- sends of a group that are looked at for those of one peer
local account, most, only, room = ARGV[1], tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4])

local latest = {}
for _, group in ipairs({'q', 'a', 'u', 'e'}) do
  local members, found = most > 0 and members_of(box, group, account) or {}, 0
  for i = #members, math.max(1, #members - LOOKED + 1), -1 do
    if found == most then break end
    local id = sub(members[i], -SEND_ID)
    local record = redis.call('HGET', box.sends, id)
    local s = read_send(record)
    if s and (only == '' or s.peer == only) then
      found = found + 1
      latest[#latest + 1], latest[#latest + 2] = id, record
    end
  end
end

local peers, lines, known = {}, {}, {}
local function add(peer)
  if known[peer] or #peers >= room then return end
  known[peer], peers[#peers + 1] = true, peer
end
for i = 5, #ARGV do add(ARGV[i]) end
local first, after = within(account)
for _, member in ipairs(redis.call('ZRANGEBYLEX', box.line, first, after)) do
  local peer = sub(member, #account + 2, -SEND_ID - 12)
  add(peer)
  lines[peer] = (lines[peer] or 0) + 1
end
local w, behind = within('w' .. account)
for _, member in ipairs(redis.call('ZRANGEBYLEX', box.index, w, behind, 'LIMIT', 0, room)) do
  add(sub(member, #account + 3))
end
local told = {}
for _, peer in ipairs(peers) do
  local line, waits = account .. '\0' .. peer, 0
  if lines[peer] then
    local s = get_send(box, head_of(box, line))
    if s and s.state == 'q' and s.at == FOR_EVER then waits = 1 end
  end
  for _, value in ipairs({peer, tostring(lines[peer] or 0), tostring(waits), redis.call('HGET', box.windows, line) or ''}) do
    told[#told + 1] = value
  end
end

local unknown, since = members_of(box, 'u', account), ''
if unknown[1] then
  local s = get_send(box, sub(unknown[1], -SEND_ID))
  since = s and s.since or ''
end
return {stamp(clock()), tostring(#unknown), since, redis.call('HGET', box.names, 'nw' .. account) or '0', latest, told}
