-- rewind send: after Redis' clock went back, bring nearer what waits for it or ends by it:
-- sends that are put off, attempts, doubts and windows. Only what began by the old clock is
-- changed, which began later than now. So doing it twice equals doing it once.
--
-- KEYS[1…8]  the outbox: see sends.lua
-- ARGV[1]   by how many ms the clock went back
-- ARGV[2]   what to continue with: a group of the index, q, a, u or w
-- ARGV[3]   the member of the index behind which to continue, '' = at the group's first
-- ARGV[4]   how many to look at, at most
--
-- Returns {what to continue with or '' at the end, behind which member, how many were
-- changed}.

local box = outbox(1)
local wrong = outbox_mistyped(box)
if wrong then return wrong end

local back, which, behind, left = tonumber(ARGV[1]), ARGV[2], ARGV[3], tonumber(ARGV[4])
local now, changed = clock(), 0
even_when_full(box.sends)
local function nearer(at) return math.max(now, tonumber(at) - back) end
local function ahead(at) return at ~= '' and tonumber(at) > now end

-- The end of a queued send that was put off, and of one whose account is paused. When one
-- expires was said by its caller, and stays.
local function queued(id, s)
  local began = ahead(s.since)
  if began then
    s.since = stamp(now)
    if ahead(s.not_before) then s.not_before = stamp(nearer(s.not_before)) end
  end
  local late = s.at ~= FOR_EVER and ahead(s.at) and s.at > s.not_before
  if not began and not late then return false end
  if s.at ~= FOR_EVER then leave_due(box, s) end
  put_send(box, id, s)
  line_up(box, line_of(s), now)
  return true
end

local function under_way(id, s)
  if not ahead(s.since) then return false end
  s.since = stamp(now)
  put_send(box, id, s)
  local ends = redis.call('ZSCORE', box.ends, id)
  if ends then redis.call('ZADD', box.ends, format('%.0f', nearer(ends)), id) end
  return true
end

-- A window also lets a send go that did not find it open by the old clock.
local function window(line)
  local w = window_of(box, line, now)
  if not w then return false end
  local id = head_of(box, line)
  local s, moved = id and get_send(box, id), ahead(w.since)
  if moved then
    local was = w.till
    w.since, w.till = stamp(now), format('%.0f', nearer(w.till))
    put_window(box, line, w)
    redis.call('ZADD', box.ends, w.till, 'w' .. line)
    if s and s.state == 'a' and s.counted == was then
      s.counted = w.till -- what it took can still be given back
      put_send(box, id, s)
    end
  end
  if s and s.state == 'q' and s.at == FOR_EVER then
    leave_due(box, s)
    put_send(box, id, s)
    line_up(box, line, now)
  end
  return moved
end

local AFTER = {q = 'a', a = 'u', u = 'w'}
while which do
  local from = behind ~= '' and '(' .. behind or '[' .. which
  local members = redis.call('ZRANGEBYLEX', box.index, from, '(' .. string.char(byte(which) + 1), 'LIMIT', 0, left)
  for _, member in ipairs(members) do
    local moved
    if which == 'w' then
      moved = window(sub(member, 2))
    else
      local id = sub(member, -SEND_ID)
      local s = get_send(box, id)
      if s and s.state == 'q' then moved = queued(id, s) end
      if s and (s.state == 'a' or s.state == 'u') then moved = under_way(id, s) end
    end
    if moved then changed = changed + 1 end
  end
  if #members == left then return {which, members[left], changed} end
  left = left - #members
  which, behind = AFTER[which], ''
end
return {'', '', changed}
