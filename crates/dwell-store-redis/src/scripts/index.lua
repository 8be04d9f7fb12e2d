-- Enters up to 200 more of a topic's waiting jobs into its ttl set, after its policy began to set a ttl.
--
-- KEYS   1 the partition
-- ARGV   1 clock  2 topic
-- RETURN 1 if there are more, else 0
-- ATOMIC One script, one slot. It goes through the due set from the place it got to, by due time and number. What comes
--        in behind that place meanwhile is entered as it comes in.
-- AGAIN  It may be repeated at will: a job entered twice is entered once.

local t = open(ARGV[2])
local place_ = t and t.ttl > 0 and call('HGET', t.key, 'indexed')
if not place_ then return 0 end
local score, last = string.match(place_, '(%-?%d+) (%d+)')
local due = t.key .. ':due'
local first = rank_after(due, tonumber(score), tonumber(last))
local members = call('ZRANGE', due, first, first + 199, 'WITHSCORES')
local add = {}
for i = 1, #members, 2 do
    local number = sub(members[i], 1, 7)
    local b, s = fetch(number)
    if b.ttl == 0 then
        add[#add + 1] = s.from
        add[#add + 1] = number
        passes(t, s.from + t.ttl)
    end
    score, last = members[i + 1], value(number)
end
if #add > 0 then call('ZADD', t.key .. ':ttl', unpack(add)) end
local more = #members == 400
if more then
    call('HSET', t.key, 'indexed', text(tonumber(score)) .. ' ' .. text(last))
else
    call('HDEL', t.key, 'indexed')
end
close()
return more and 1 or 0
