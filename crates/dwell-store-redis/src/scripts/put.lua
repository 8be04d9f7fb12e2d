-- Puts up to 100 jobs of one topic.
--
-- KEYS   1 the partition
-- ARGV   1 clock  2 topic  3 longest delay (ms)  4 "1" if this may be a repeat, else "0"
--        then for each job, 9 values: id, number, rest of the blob, body kept apart or "", "n" for a name that may be
--        taken or "f" for one that cannot be, "i" for a delay or "a" for an instant, milliseconds, jitter's share,
--        whole jitter; and a tenth: "" or the number and version of the job whose place it takes
-- RETURN {time, "" or the policy or false if there is no such topic, answers}; an answer is {1, version, created, due,
--        replaced} if it was put, {2} if its id is taken or the job to be replaced has changed, {3} if it is too far
-- ATOMIC One script, one slot: an id is looked up and taken in one step, so one of two puts of a name sees the other.
-- AGAIN  A job has the request's id in its blob: a repeat that finds it answers as the first did.

local t = open(ARGV[2])
local longest = tonumber(ARGV[3])
local answers, jobs = {}, {}
local seen = {}

local function due_of(i)
    local millis, share, jitter = tonumber(ARGV[i + 6]), tonumber(ARGV[i + 7]), tonumber(ARGV[i + 8])
    local due
    if ARGV[i + 5] == 'a' then
        if millis > at + longest then return nil end
        due = millis
    else
        due = millis == 0 and at or up + millis
    end
    if jitter > 0 and due + jitter > up + longest then return nil end
    return due + share
end

local good = false
for i = 5, #ARGV, 10 do
    local due = due_of(i)
    jobs[#jobs + 1] = { i = i, due = due }
    good = good or due ~= nil
end
if not t then
    if good then return { at, false, {} } end
    for k = 1, #jobs do answers[k] = { 3 } end
    return { at, '', answers }
end

local ids = {}
for k, job in ipairs(jobs) do ids[k] = ARGV[job.i] end
local found = call('HMGET', t.key .. ':ids', unpack(ids))
local done = {}
if t.keepd > 0 then
    for k, record in ipairs(call('HMGET', t.key .. ':done', unpack(ids))) do
        done[k] = record and unpack_('>I6', record, #record - 5) + t.keepd > at
    end
end

-- An earlier attempt of this very put, if it is there.
local function earlier(job, number)
    if ARGV[4] ~= '1' or not number then return nil end
    local b = fetch(number)
    if b and b.rid == sub(ARGV[job.i + 2], 5, 8) then
        return { 1, b.version, b.created, b.due, b.flags % 8 >= 4 and 1 or 0 }
    end
end

local last = versions(#jobs)
local new_ids, blobs, bodies, dues = {}, {}, {}, {}
local created = 0
for k, job in ipairs(jobs) do
    local i = job.i
    local id, number, rest, old = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 9]
    local there = seen[id] or found[k]
    local named = ARGV[i + 4] == 'n'
    local repeated = earlier(job, there)
    local taken = named and (there or done[k])
    if taken and old ~= '' and there == sub(old, 1, 7) then
        local b, s = fetch(there)
        if b and s.version == sub(old, 8, 14) and job.due then
            remove(t, there, b, s)
            taken = false
        end
    elseif taken and old == 'done' and not there then
        taken = false
    elseif not taken and old ~= '' then
        taken = old ~= 'done'
    end
    if repeated then
        answers[k] = repeated
    elseif taken then
        answers[k] = { 2 }
    elseif not job.due then
        answers[k] = { 3 }
    else
        if t.keepd > 0 then
            call('HDEL', t.key .. ':done', id)
            call('ZREM', t.key .. ':donez', id)
        end
        local blob = pack('>I7I6I6', last + k, at, job.due) .. rest
        answers[k] = { 1, sub(blob, 1, 7), at, job.due, old ~= '' and old ~= 'done' and 1 or 0 }
        seen[id] = number
        created = created + 1
        new_ids[#new_ids + 1] = id
        new_ids[#new_ids + 1] = number
        blobs[#blobs + 1] = number
        blobs[#blobs + 1] = blob
        if ARGV[i + 3] ~= '' then
            bodies[#bodies + 1] = number
            bodies[#bodies + 1] = ARGV[i + 3]
        end
        local is_plain = byte(rest, 9) % 16 < 8 and t.ttl == 0
        if is_plain and not is_promoted(t, job.due, number) then
            comes(t, job.due)
            dues[#dues + 1] = job.due
            dues[#dues + 1] = sub(number .. rest, 1, 11) .. '\0\0'
        else
            local b = read_blob(blob)
            place(t, number, b, read_state(nil, b))
        end
    end
end
if #new_ids > 0 then
    call('HSET', t.key .. ':ids', unpack(new_ids))
    call('HSET', P .. ':jobs', unpack(blobs))
end
if #bodies > 0 then call('HSET', P .. ':bodies', unpack(bodies)) end
if #dues > 0 then call('ZADD', t.key .. ':due', unpack(dues)) end
if created > 0 then
    count(t, 'put', created)
    close()
end
return { at, t.policy, answers }
