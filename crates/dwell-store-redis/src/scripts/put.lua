-- Puts up to 100 jobs of one topic.
--
-- KEYS   1 the partition
-- ARGV   1 clock  2 request id (8 bytes)  3 topic  4 longest delay (ms)  5 "", or what the only job takes the place of:
--        number and version of a live one, or "done"  6 how many partitions there are (2 bytes) and which this is (2); then
--        for each job: flags (1: 1 its name may be taken, 2 it has an instant and no delay, 4 it has a jitter, 8 it is named
--        by its number), milliseconds (6) and with a jitter its share of it (6) and the whole (6); then for each job its
--        blob from its priority on, and after these the bodies that are kept apart
-- RETURN false if there is no such topic, else a string: time (6), length of the policy (4), the policy; then for each job:
--        code (1), number (7), created (6), due (6); code 1 put, 2 put in place of another, 3 its id is taken or the job to
--        be replaced has changed, 4 it is too far
-- ATOMIC One script, one slot: an id is looked up and taken in one step, so one of two puts of a name sees the other.
-- AGAIN  What was answered is kept under the request's id for 30 s, and nothing is written before it has been asked for: of
--        two attempts the second answers as the first did, whichever of them came late, and whatever became of the jobs.

local t = open(ARGV[3])
local longest, old = tonumber(ARGV[4]), ARGV[5]
local partitions, partition, next = unpack_('>I2I2', ARGV[6])

-- What the heads say: when each is due, if not too far, and its flags.
local dues, flags = {}, {}
local good = false
while next <= #ARGV[6] do
    local kind, due, share, jitter = nil, nil, 0, 0
    kind, due, next = unpack_('>I1I6', ARGV[6], next)
    if kind % 8 >= 4 then share, jitter, next = unpack_('>I6I6', ARGV[6], next) end
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

local jobs, answers, memo = #flags, {}, P .. ':call:' .. ARGV[2]
local function say(said) return pack('>I6I4', at, t and #t.policy or 0) .. (t and t.policy or '') .. said end
if not t and good then
    local earlier = call('GET', memo)
    return earlier and say(earlier)
end
local TAKEN, TOO_FAR = pack('>I1I7I6I6', 3, 0, 0, 0), pack('>I1I7I6I6', 4, 0, 0, 0)
if not t then return say(string.rep(TOO_FAR, jobs)) end

-- Ids, as the blobs have them, and where. Those that are made of numbers are made below.
local ids, places = {}, {}
for k = 1, jobs do
    local rest = ARGV[6 + k]
    local what = byte(rest, 5)
    local from = 9 + #t.name + (what % 8 >= 4 and 12 or 0) + (what % 2 == 1 and 2 or 0)
    places[k] = from
    ids[k] = sub(rest, from + 1, from + byte(rest, from))
end
local found = call('HMGET', t.key .. ':ids', unpack(ids))
local done = {}
if t.keepd > 0 then
    for k, record in ipairs(call('HMGET', t.key .. ':done', unpack(ids))) do
        done[k] = record and unpack_('>I6', record, #record - 5) + t.keepd > at
    end
end

-- Which of them go, under which number, and whose place one of them takes.
local number = counts(jobs * partitions) + 1
number = number + (partition - number) % partitions
local seen, going, names, gone = {}, {}, {}, nil
for k = 1, jobs do
    local name = pack('>I7', number)
    local there = seen[ids[k]] or found[k]
    local taken = flags[k] % 2 == 1 and (there or done[k])
    if taken and there and there == sub(old, 1, 7) then
        local b, s = fetch(there)
        if b and s.version == sub(old, 8, 14) then
            gone = dues[k] and { there, b, s }
            taken = false
        end
    elseif taken and old == 'done' and not there then
        taken = false
    elseif not taken and old ~= '' then
        taken = old ~= 'done'
    end
    if taken then
        answers[k] = TAKEN
    elseif not dues[k] then
        answers[k] = TOO_FAR
    else
        if flags[k] >= 8 then ids[k] = '$' .. text(number) end
        answers[k] = pack('>I1', gone and 2 or 1) .. name .. pack('>I6I6', at, dues[k])
        seen[ids[k]] = name
        names[k] = name
        going[#going + 1] = k
    end
    number = number + partitions
end

-- An earlier attempt of this very put, if there was one, has put all that it could.
local said = table.concat(answers)
if #going == 0 then return say(call('GET', memo) or said) end
local earlier = call('SET', memo, said, 'NX', 'GET', 'PX', 30000)
if earlier then return say(earlier) end

if gone then remove(t, unpack(gone)) end
local new_ids, blobs, bodies, members = {}, {}, {}, {}
local next_body = 7 + jobs
for k = 1, jobs do
    local rest, name = ARGV[6 + k], names[k]
    local body
    if byte(rest, 5) % 2 == 1 then body, next_body = ARGV[next_body], next_body + 1 end
    if name then
        if flags[k] >= 8 then
            rest = sub(rest, 1, places[k] - 1) .. string.char(#ids[k]) .. ids[k] .. sub(rest, places[k] + 1)
        end
        local blob = pack('>I6I6', at, dues[k]) .. rest
        local last = #blobs
        new_ids[last + 1] = ids[k]
        new_ids[last + 2] = name
        blobs[last + 1] = name
        blobs[last + 2] = blob
        if body then
            bodies[#bodies + 1] = name
            bodies[#bodies + 1] = body
        end
        local is_plain = byte(rest, 5) % 8 < 4 and t.ttl == 0
        if is_plain and not is_promoted(t, dues[k], name) then
            comes(t, dues[k])
            members[#members + 1] = dues[k]
            members[#members + 1] = name .. sub(rest, 1, 4) .. '\0\0'
        else
            local b = read_blob(name, blob)
            place(t, name, b, read_state(nil, b))
        end
    end
end
if t.keepd > 0 then
    for _, k in ipairs(going) do
        call('HDEL', t.key .. ':done', ids[k])
        call('ZREM', t.key .. ':donez', ids[k])
    end
end
call('HSET', t.key .. ':ids', unpack(new_ids))
call('HSET', P .. ':jobs', unpack(blobs))
if #bodies > 0 then call('HSET', P .. ':bodies', unpack(bodies)) end
if #members > 0 then call('ZADD', t.key .. ':due', unpack(members)) end
count(t, 'put', #going)
close()
return say(said)
