-- Puts up to 100 jobs of one topic.
--
-- KEYS   1 the partition
-- ARGV   1 clock  2 "1" if this may be a repeat, else "0"  3 topic  4 longest delay (ms)  5 "", or what the only job takes the
--        place of: number and version of a live one, or "done"  6 request id (8 bytes) if a job is named by its number, else
--        ""  7 how many partitions there are (2 bytes) and which this is (2); then for each job: flags (1: 1 its name may be
--        taken, 2 it has an instant and no delay, 4 it has a jitter, 8 it is named by its number), milliseconds (6) and with
--        a jitter its share of it (6) and the whole (6); then for each job its blob from its priority on, and after these
--        the bodies that are kept apart
-- RETURN false if there is no such topic, else a string: time (6), length of the policy (4), the policy; then for each job:
--        code (1), number (7), created (6), due (6); code 1 put, 2 put in place of another, 3 its id is taken or the job to
--        be replaced has changed, 4 it is too far
-- ATOMIC One script, one slot: an id is looked up and taken in one step, so one of two puts of a name sees the other.
-- AGAIN  A job has the request's id in its blob: a repeat that finds it answers as the first did. Of jobs that are named by
--        their numbers, these are kept under the request's id for 30 s.

local t = open(ARGV[3])
local longest, old = tonumber(ARGV[4]), ARGV[5]
local partitions, partition, next = unpack_('>I2I2', ARGV[7])

-- What the heads say: when each is due, if not too far, and its flags.
local dues, flags = {}, {}
local good = false
while next <= #ARGV[7] do
    local kind, due, share, jitter = nil, nil, 0, 0
    kind, due, next = unpack_('>I1I6', ARGV[7], next)
    if kind % 8 >= 4 then share, jitter, next = unpack_('>I6I6', ARGV[7], next) end
    local too_far = false
    if kind % 4 >= 2 then
        too_far = due > at + longest
    else
        due = due == 0 and at or up + due
    end
    too_far = too_far or (jitter > 0 and due + jitter > up + longest)
    flags[#flags + 1] = kind
    dues[#flags] = not too_far and due + share
    good = good or not too_far
end
if not t and good then return false end

local jobs = #flags
local answers = { pack('>I6I4', at, t and #t.policy or 0) .. (t and t.policy or '') }
if not t then
    for k = 1, jobs do answers[k + 1] = pack('>I1I7I6I6', 4, 0, 0, 0) end
    return table.concat(answers)
end

-- Ids, as the blobs have them. Those that are made of numbers are made later, unless an earlier attempt made them.
local ids, places = {}, {}
local kept = ARGV[6] ~= '' and ARGV[2] == '1' and call('GET', P .. ':call:' .. ARGV[6])
for k = 1, jobs do
    local rest = ARGV[7 + k]
    local what = byte(rest, 9)
    local from = 13 + #t.name + (what % 16 >= 8 and 12 or 0) + (what % 2 == 1 and 2 or 0)
    places[k] = from
    ids[k] = sub(rest, from + 1, from + byte(rest, from))
    if kept and flags[k] >= 8 then ids[k] = '$' .. text(value(sub(kept, k * 7 - 6, k * 7))) end
end
local found = call('HMGET', t.key .. ':ids', unpack(ids))
local done = {}
if t.keepd > 0 then
    for k, record in ipairs(call('HMGET', t.key .. ':done', unpack(ids))) do
        done[k] = record and unpack_('>I6', record, #record - 5) + t.keepd > at
    end
end

-- The answer of an earlier attempt of this very put, if it is there.
local function earlier(k, number)
    local blob = call('HGET', P .. ':jobs', number)
    if blob and sub(blob, 17, 20) == sub(ARGV[7 + k], 5, 8) then
        return pack('>I1', byte(blob, 21) % 8 >= 4 and 2 or 1) .. number .. sub(blob, 1, 12)
    end
end

local number = counts(jobs * partitions) + 1
number = number + (partition - number) % partitions
local seen, made = {}, {}
local new_ids, blobs, bodies, members = {}, {}, {}, {}
local next_body = 8 + jobs
for k = 1, jobs do
    local rest, id = ARGV[7 + k], ids[k]
    local name = pack('>I7', number)
    local body
    if byte(rest, 9) % 2 == 1 then body, next_body = ARGV[next_body], next_body + 1 end
    local there = seen[id] or found[k]
    local answer = ARGV[2] == '1' and there and earlier(k, there)
    local taken = flags[k] % 2 == 1 and (there or done[k])
    if not answer and old ~= '' then
        if taken and there and there == sub(old, 1, 7) then
            local b, s = fetch(there)
            if b and s.version == sub(old, 8, 14) and dues[k] then
                remove(t, there, b, s)
                taken = false
            end
        elseif taken and old == 'done' and not there then
            taken = false
        elseif not taken then
            taken = old ~= 'done'
        end
    end
    if answer then
        answers[k + 1] = answer
    elseif taken then
        answers[k + 1] = pack('>I1I7I6I6', 3, 0, 0, 0)
    elseif not dues[k] then
        answers[k + 1] = pack('>I1I7I6I6', 4, 0, 0, 0)
    else
        if flags[k] >= 8 then
            id = '$' .. text(number)
            rest = sub(rest, 1, places[k] - 1) .. string.char(#id) .. id .. sub(rest, places[k] + 1)
        end
        if t.keepd > 0 then
            call('HDEL', t.key .. ':done', id)
            call('ZREM', t.key .. ':donez', id)
        end
        local times = pack('>I6I6', at, dues[k])
        local blob = times .. rest
        answers[k + 1] = (#old == 14 and '\2' or '\1') .. name .. times
        seen[id] = name
        local last = #blobs
        new_ids[last + 1] = id
        new_ids[last + 2] = name
        blobs[last + 1] = name
        blobs[last + 2] = blob
        if body then
            bodies[#bodies + 1] = name
            bodies[#bodies + 1] = body
        end
        local is_plain = byte(rest, 9) % 16 < 8 and t.ttl == 0
        if is_plain and not is_promoted(t, dues[k], name) then
            comes(t, dues[k])
            members[#members + 1] = dues[k]
            members[#members + 1] = name .. sub(rest, 1, 4) .. '\0\0'
        else
            local b = read_blob(name, blob)
            place(t, name, b, read_state(nil, b))
        end
    end
    made[k] = name
    number = number + partitions
end
if #blobs > 0 then
    call('HSET', t.key .. ':ids', unpack(new_ids))
    call('HSET', P .. ':jobs', unpack(blobs))
    if #bodies > 0 then call('HSET', P .. ':bodies', unpack(bodies)) end
    if #members > 0 then call('ZADD', t.key .. ':due', unpack(members)) end
    if ARGV[6] ~= '' then call('SET', P .. ':call:' .. ARGV[6], table.concat(made), 'PX', 30000) end
    count(t, 'put', #blobs / 2)
    close()
end
return table.concat(answers)
