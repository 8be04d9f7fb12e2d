-- Removes up to 100 of a topic's jobs, or what is left of a topic without jobs.
--
-- KEYS   1 the partition
-- ARGV   1 clock  2 topic  3 "delayed", "ready", "leased", "buried" or "topic"
-- RETURN {code, removed}; code 0 if there is more, 1 if that was all, 2 if there is no such topic
-- ATOMIC One script, one slot: each job goes as a whole, and a topic goes only in the step that finds it empty.
-- AGAIN  What is gone is gone: a repeat goes on with the next ones.

local t = open(ARGV[2])
if not t then return { 2, 0 } end
local sets = { delayed = { ':due' }, ready = { ':due' }, leased = { ':leased' }, buried = { ':buried' } }
local from = sets[ARGV[3]] or { ':due', ':leased', ':buried' }
local removed = 0
for _, name in ipairs(from) do
    local key = t.key .. name
    local members
    if ARGV[3] == 'delayed' then
        members = call('ZRANGEBYSCORE', key, '(' .. text(at), '+inf', 'LIMIT', 0, 100)
    elseif ARGV[3] == 'ready' then
        members = call('ZRANGEBYSCORE', key, '-inf', at, 'LIMIT', 0, 100)
    else
        members = call('ZRANGE', key, 0, 99 - removed)
    end
    for _, member in ipairs(members) do
        local number = sub(member, 1, 7)
        local b, s = fetch(number)
        remove(t, number, b, s)
        removed = removed + 1
    end
    if removed >= 100 then break end
end
count(t, 'purged', removed)
if removed < 100 and ARGV[3] == 'topic' then
    local key = t.key
    call('UNLINK', key, key .. ':ids', key .. ':due', key .. ':leased', key .. ':held', key .. ':buried',
        key .. ':old', key .. ':own', key .. ':ttl', key .. ':done', key .. ':donez', key .. ':lines',
        key .. ':ready:0')
    call('ZREM', P .. ':topics', t.name)
    call('ZREM', P .. ':agenda', t.name)
    call('SREM', P .. ':push', t.name)
    opened[t.name] = false
end
close()
return { removed < 100 and 1 or 0, removed }
