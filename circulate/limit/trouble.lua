-- trouble: note what checks saw of names that are not well, and ask whether probes of them may start.
--
-- KEYS[1]  the troubles   HASH  name, as in keys -> trouble
-- ARGV[1]  the most troubles
-- then, four for each step: what was seen or is asked; the name, as in keys; the wait that the
--   third party asked for, ms; for people, the name and the cause in a line each
--     failed   its checks fail in a row, or a probe of it failed
--     paused   the third party asked for the wait
--     well     a check of it succeeded
--     probe    may a probe of it start?
--
-- A trouble is its state, d for down or p for paused; since when it lasts; when the next probe may
-- start; the distance of probes; until when a probe counts as under way; when it was last written,
-- all in ms; and the text for people.
--
-- Returns the time now, unix ms, and for each step the trouble as it now is, or '' if there is none.
-- The trouble of a probe that may start is preceded by '!'. Without a step it returns the time, and
-- name and trouble of all.

local troubles, most = KEYS[1], tonumber(ARGV[1])

local FIRST_STEP, LAST_STEP = 2000, 15000 -- ms, between two probes
local PROBE = 10000    -- ms; a probe that has not ended by then no longer keeps others from starting
local MEMORY = 600000  -- ms; how long a trouble is remembered of which nothing is heard
local LIFE = 90000000  -- ms; longer than any wait and the memory

local wrong = mistyped(troubles, 'hash')
if wrong then return wrong end
local now = clock()

local function read(text)
  local state, since, next, step, probing, seen, about = string.match(text or '', '^(%a) (%d+) (%d+) (%d+) (%d+) (%d+)\n(.*)$')
  if not state then return nil end
  local t = {
    state = state, since = tonumber(since), next = tonumber(next), step = tonumber(step),
    probing = tonumber(probing), seen = tonumber(seen), about = about,
  }
  -- If it was last written in the future, the clock went back, and its times with it.
  local ahead = t.seen - now
  if ahead > 1000 then
    t.since, t.next, t.probing, t.seen = t.since - ahead, t.next - ahead, math.max(0, t.probing - ahead), now
  end
  if now - math.max(t.next, t.probing, t.seen) > MEMORY then return nil end
  return t
end

local function write(t)
  return format('%s %.0f %.0f %.0f %.0f %.0f\n%s', t.state, math.max(0, t.since), math.max(0, t.next), t.step, t.probing, t.seen, t.about)
end

-- Removes what is over, and returns the rest.
local function sweep()
  local all, left = redis.call('HGETALL', troubles), {}
  for i = 1, #all, 2 do
    local t = read(all[i + 1])
    if t then
      left[#left + 1] = all[i]
      left[#left + 1] = write(t)
    else
      redis.call('HDEL', troubles, all[i])
    end
  end
  return left
end

even_when_full(troubles)
local answers = {format('%.0f', now)}
if #ARGV == 1 then
  for _, text in ipairs(sweep()) do answers[#answers + 1] = text end
  return answers
end
local written = false
for a = 2, #ARGV, 4 do
  local what, name, wait, about = ARGV[a], ARGV[a + 1], tonumber(ARGV[a + 2]), ARGV[a + 3]
  local t = read(redis.call('HGET', troubles, name))
  local changed, granted = false, false
  if what == 'failed' or what == 'paused' then
    changed = true
    if not t and (redis.call('HLEN', troubles) < most or #sweep() < 2 * most) then
      t = {state = 'd', since = now, next = now + FIRST_STEP, step = FIRST_STEP, probing = 0, about = about}
    elseif t and t.probing > now and what == 'failed' then
      t.step = math.min(LAST_STEP, t.step * 3 / 2)
      t.next = math.max(t.next, now + t.step)
      t.about = about
    end
    if t then
      t.state = (what == 'paused' or wait > t.step) and 'p' or t.next > now + t.step and t.state or 'd'
      t.next, t.probing = math.max(t.next, now + wait), 0
    end
  elseif what == 'well' then
    -- A check that began before a pause says nothing about it.
    if t and not (t.state == 'p' and t.next > now) then
      redis.call('HDEL', troubles, name)
      t = nil
    end
  elseif t and t.next <= now and t.probing <= now then
    changed, granted = true, true
    t.probing = now + PROBE
  end
  if t and changed then
    t.seen, written = now, true
    redis.call('HSET', troubles, name, write(t))
  end
  answers[#answers + 1] = (granted and '!' or '') .. (t and write(t) or '')
end
if written then redis.call('PEXPIRE', troubles, LIFE) end
return answers
