-- Looks at the heads of ready sets: what leases of them would get.
--
-- KEYS   1 the partition
-- ARGV   1 clock  2 "1" if a courier asks, else "0"  3 most jobs of one line (up to 100)  4 "1" to go on although time
--        has done things nobody has seen to, else "0"  5 how many topics follow  6 "1" if jobs are acked
--        as they are handed out, else "0"; topics: those asked for, or for a
--        courier those whose own line 0 is blocked; then, for a courier, blocked lines
-- RETURN {time, topics in which time has done things that must be seen to first, next, heads}; next: from when on there
--        may be more, or -1; a head is {topic, line, priority, due, number, length of its body}
-- ATOMIC One script, one slot. The lease that follows chooses again.
-- AGAIN  It may be repeated at will: it only promotes what is due.

local courier, most, named = ARGV[2] == '1', tonumber(ARGV[3]), tonumber(ARGV[5])
local acks = ARGV[6] == '1'
local late, heads, next = {}, {}, -1
local blocked_topics, blocked_lines, names = {}, {}, {}
for i = 7, 6 + named do
    names[#names + 1] = ARGV[i]
    blocked_topics[ARGV[i]] = true
end
for i = 7 + named, #ARGV do blocked_lines[ARGV[i]] = true end
if courier then names = call('SMEMBERS', P .. ':push') end

local function sooner(instant)
    if instant and (next < 0 or instant < next) then next = instant end
end

local function look(t, line, allowed)
    local entries = call('ZRANGE', ready_key(t, line), 0, math.min(most, allowed) - 1, 'WITHSCORES')
    for i = 1, #entries, 2 do
        local number = sub(entries[i], 7)
        local b = read_blob(number, call('HGET', P .. ':jobs', number))
        heads[#heads + 1] =
            { t.name, line, tonumber(entries[i + 1]), unpack_('>I6', entries[i]), number, b.length }
    end
end

local function look_at(t)
    if ARGV[4] == '0' and is_overdue(t) then
        late[#late + 1] = t.name
        return
    end
    promote(t, 200)
    local allowed, open_at = allowance(t, acks)
    sooner(open_at)
    sooner(head(t.key .. ':due', t.n))
    sooner(head(t.key .. ':leased'))
    if allowed == 0 then return end
    if t.push == courier and not (courier and blocked_topics[t.name]) then look(t, 0, allowed) end
    if courier then
        for _, line in ipairs(call('HKEYS', t.key .. ':lines')) do
            if not blocked_lines[line] then look(t, tonumber(line), allowed) end
        end
    end
end

for _, name in ipairs(names) do
    local t = open(name)
    if t then
        look_at(t)
        if courier and not t.push and call('EXISTS', t.key .. ':lines') == 0 then
            call('SREM', P .. ':push', name)
        end
    elseif courier then
        call('SREM', P .. ':push', name)
    end
end
for name, t in pairs(opened) do
    if t and not t.moved then opened[name] = nil end
end
close()
return { at, late, next, heads }
