-- list: shared by the scripts that take many entries out of a list; it comes after
-- entry.lua.

-- Does LREM list -1 for each of the entries and returns the set of the places for which
-- LREM would have answered 1. One LREM takes time with the length of the list. So for
-- many entries of a list that is not much longer, the list is read once and the rest is
-- written back. Accounts claimed together are mostly returned together, and then are at
-- the end. If it looks so, the end is read first, and all of it only if some are not
-- there. A missing entry costs a walk through the whole list. After a few of them a
-- longer list is read once as well, to find out which entries exist.
local function remove(list, entries)
  local removed, n = {}, #entries
  local length = n >= 8 and redis.call('LLEN', list)
  if not length or length > 8 * n then
    local absent, there = 0, nil
    for i = 1, n do
      if not there or there[entries[i]] then
        removed[i] = redis.call('LREM', list, -1, entries[i]) == 1
        if not removed[i] then absent = absent + 1 end
        if absent == 4 and not there then
          there = {}
          for k = i + 1, n do there[entries[k]] = false end
          for from = 0, redis.call('LLEN', list) - 1, 4000 do
            for _, entry in ipairs(redis.call('LRANGE', list, from, from + 3999)) do
              if there[entry] == false then there[entry] = true end
            end
          end
        end
      end
    end
    return removed
  end
  if length == 0 then return removed end
  local wanted, reach = {}, length
  for i = n, 1, -1 do wanted[entries[i]] = i end
  if length > n * 5 / 4 and wanted[redis.call('LINDEX', list, '-1')] and wanted[redis.call('LINDEX', list, -n)] then
    reach = math.floor(n * 9 / 8)
  end
  local all, kept, first, done
  repeat
    local found = 0
    removed, kept = {}, {}
    all = redis.call('LRANGE', list, -reach, -1)
    first = #all + 1
    for j = #all, 1, -1 do
      local entry = all[j]
      local i = wanted[entry]
      if i and not removed[i] then
        removed[i], found = true, found + 1
      else
        first = first - 1
        kept[first] = entry
      end
    end
    done, reach = found == n or reach == length, length
  until done
  redis.call('LTRIM', list, 0, -1 - #all)
  for from = first, #all, 4000 do
    redis.call('RPUSH', list, unpack(kept, from, math.min(from + 3999, #all)))
  end
  return removed
end
