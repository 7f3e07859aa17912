-- settle send: write how attempts went.
--
-- KEYS[1…8]  the outbox: see sends.lua
-- ARGV       seven for each: its id, its fence, how it went, code, text, the vendor's id,
--            and when the next attempt may be, unix ms, or '' for at once. How it went is y
--            accepted, n rejected, u unknown, r again later, b again later and no byte has
--            left, w the same, and it counts as no attempt
--
-- Only the attempt with the fence is settled. One that is unknown by now may still turn
-- out accepted or rejected, as long as nobody has resolved it.
--
-- Returns a text with a letter for each: 1 if it is settled so, 0 if it was not this one's.

local box = outbox(1)
local wrong = outbox_mistyped(box)
if wrong then return wrong end

even_when_full(box.sends)
local now, letters = clock(), {}
for a = 1, #ARGV, 7 do
  local id, fence, how = ARGV[a], ARGV[a + 1], ARGV[a + 2]
  local s = get_send(box, id)
  local letter = '0'
  if s and s.fence == fence and fence ~= '' then
    local under, final = s.state == 'a', how == 'y' or how == 'n'
    if s.state == how then
      letter = '1' -- it was done before, and the reply was lost
    elseif under or final and s.state == 'u' then
      letter = '1'
      s.code, s.text, s.vendor = ARGV[a + 3], ARGV[a + 4], ARGV[a + 5]
      if final then
        end_send(box, id, s, how, now)
        if how == 'y' and s.vendor ~= '' then redis.call('HSET', box.names, 'v' .. s.account .. '\0' .. s.vendor, id) end
        tell_event(box, how == 'y' and 'accepted' or 'rejected', id, s)
      elseif how == 'u' then
        end_unknown(box, id, s, now)
      else
        if how ~= 'r' then
          uncount(box, s, now)
          if how == 'w' then s.attempts = format('%d', tonumber(s.attempts) - 1) end
        end
        s.not_before = ARGV[a + 6] ~= '' and stamp(tonumber(ARGV[a + 6])) or ''
        queue_again(box, id, s, now)
      end
    end
  end
  letters[#letters + 1] = letter
end
return table.concat(letters)
