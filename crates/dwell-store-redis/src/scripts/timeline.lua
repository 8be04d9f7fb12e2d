-- Counts a topic's waiting jobs, or those of up to 20 topics, by due time.
--
-- KEYS   1 the partition
-- ARGV   1 clock  2 begin  3 step  4 buckets  5 "1" to go on although time has done things nobody has seen to,
--        else "0"; then topics
-- RETURN {code, counts}; code 0, or 1 if time has done things in one of them that must be seen to first; counts are of
--        all of them together; false if there is just one topic and it is not there
-- ATOMIC One script, one slot.
-- AGAIN  It changes nothing.

local begin, step, buckets = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local counts = {}
for k = 1, buckets do counts[k] = 0 end
for i = 6, #ARGV do
    local t = open(ARGV[i])
    if not t and #ARGV == 6 then return { 0, false } end
    if t then
        if ARGV[5] == '0' and #overdue(t, 1) > 0 then return { 1, {} } end
        local due = t.key .. ':due'
        local left = call('ZCOUNT', due, begin, '(' .. text(begin + step * buckets))
        for k = 1, buckets do
            if left == 0 then break end
            local from = begin + (k - 1) * step
            local found = call('ZCOUNT', due, from, '(' .. text(from + step))
            counts[k] = counts[k] + found
            left = left - found
        end
    end
end
return { 0, counts }
