-- list: what the scripts share that take many entries out of a list; it comes after
-- entry.lua.

-- Does LREM list -1 for each of the entries and returns the set of the places for which
-- that would have answered 1. One LREM costs time with the length of the list, so for
-- many entries of a list not much longer the list is read once and what remains is put
-- in its place: pushed behind, then the old part cut off. A missing entry costs a walk
-- through the whole list. After a few of them a longer list is read once as well, to
-- find out which entries exist.
local function remove(list, entries)
  local removed, n = {}, #entries
  if n < 8 or redis.call('LLEN', list) > 8 * n then
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
  local wanted = {}
  for i = n, 1, -1 do wanted[entries[i]] = i end
  local all, kept = redis.call('LRANGE', list, 0, -1), {}
  local first = #all + 1
  for j = #all, 1, -1 do
    local i = wanted[all[j]]
    if i then
      removed[i] = true
      wanted[all[j]] = nil
    else
      first = first - 1
      kept[first] = all[j]
    end
  end
  for from = first, #all, 4000 do
    redis.call('RPUSH', list, unpack(kept, from, math.min(from + 3999, #all)))
  end
  redis.call('LTRIM', list, #all, -1)
  return removed
end
