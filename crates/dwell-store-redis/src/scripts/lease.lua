-- Hands out up to 100 jobs of one topic and line, best first, to one or several who ask.
--
-- KEYS   1 the partition
-- ARGV   1 clock  2 "1" if this may be a repeat, else "0"  3 topic  4 request id (8 bytes)  5 secrets, 8 bytes a job
--        6 line (2), flags (1: 1 a courier asks, 2 ack at once, 4 go on although time has done things nobody has seen to,
--        8 the answer has no job yet, so that one fits anyway), the server's ttr (4), most bytes of bodies in this call (4;
--        one job always fits), most bytes of bodies in all that is left of the answer (4); then for each who asks, in the
--        order in which they are served: most jobs (4), ttr asked for or 0 (4), consumer (a length of 1 byte and text)
-- RETURN a string: time (6), code (1: 0, or 1 if time has done things that must be seen to first), from when on there may be
--        more (6, 0 for never), 1 if a job did not fit this call, else 0 (1), length of the policy (4), policy; then for
--        each job: for whom (1: 1 the first), number (7), lengths (4 each) of blob, state and body kept apart, and these
-- ATOMIC One script, one slot: what is due is promoted, chosen, leased or acked in one step, so that no two calls get
--        one job, and a cancellation comes wholly before or after.
-- AGAIN  The numbers handed out are kept under the request's id for 30 s: a repeat is given the same leases again.

local t = open(ARGV[3])
local memo = P .. ':call:' .. ARGV[4]
local line, flags, usual, room, left, from = unpack_('>I2I1I4I4I4', ARGV[6])
local courier, acks, anyway, first = flags % 2 == 1, flags % 4 >= 2, flags % 8 >= 4, flags >= 8

local answer = { '' }
local function add(whom, number, blob, state, body)
    local last = #answer
    answer[last + 1] = pack('>I1', whom) .. number .. pack('>I4I4I4', #blob, #state, #body)
    answer[last + 2] = blob
    answer[last + 3] = state
    answer[last + 4] = body
end
local function say(code, next, more)
    local policy = #answer > 1 and t.policy or ''
    answer[1] = pack('>I6I1I6I1I4', at, code, next, more, #policy) .. policy
    return table.concat(answer)
end

if not t then return say(0, 0, 0) end

if ARGV[2] == '1' then
    local kept = call('GET', memo)
    if kept then
        for i = 1, #kept, 16 do
            local number = sub(kept, i, i + 6)
            local b, s = fetch(number)
            if b and s.phase == 'l' and sub(s.token, 8) == sub(kept, i + 7, i + 14) then
                add(byte(kept, i + 15), number, b.raw, call('HGET', P .. ':state', number), body_of(number, b))
            end
        end
        return say(0, 0, 0)
    end
end

if not anyway and is_overdue(t) then return say(1, 0, 0) end
local pushed = line > 0 or t.push
if pushed ~= courier then return say(0, 0, 0) end

local asks, most = {}, 0
while from <= #ARGV[6] do
    local jobs, ttr, consumer
    jobs, ttr, consumer, from = unpack_('>I4I4I1', ARGV[6], from)
    asks[#asks + 1] = { jobs, ttr, pack('>I1', consumer) .. sub(ARGV[6], from, from + consumer - 1) }
    from = from + consumer
    most = most + jobs
end
local allowed, open_at = allowance(t, acks)
local wanted = math.min(most, allowed, 100)

-- What is ready: {priority, due, number}. If nothing is promoted and all that is due can go, it goes by itself.
local ready = ready_key(t, line)
local found, promoted = {}, true
if wanted > 0 and t.n == 0 then
    local due = call('ZRANGEBYSCORE', t.key .. ':due', '-inf', at, 'WITHSCORES', 'LIMIT', 0, wanted + 1)
    promoted = #due > wanted * 2
    for i = 1, #due, 2 do
        local priority, of = unpack_('>I4I2', due[i], 8)
        promoted = promoted or of ~= line
        found[#found + 1] = { priority, tonumber(due[i + 1]), sub(due[i], 1, 7) }
    end
end
if not promoted then
    if #found > 1 then
        table.sort(found, function(one, other)
            for k = 1, 2 do
                if one[k] ~= other[k] then return one[k] < other[k] end
            end
            return value(one[3]) < value(other[3])
        end)
    end
else
    promote(t, 200)
    found = {}
    local entries = wanted > 0 and call('ZRANGE', ready, 0, wanted - 1) or {}
    for k, entry in ipairs(entries) do found[k] = { 0, 0, sub(entry, 7), entry } end
end
local numbers = {}
for k, job in ipairs(found) do numbers[k] = job[3] end

local jobs, expired, more = 0, false, 0
if #numbers > 0 then
    local blobs = call('HMGET', P .. ':jobs', unpack(numbers))
    local states = call('HMGET', P .. ':state', unpack(numbers))
    local last = counts(#numbers)
    local whom, given = 1, 0
    local from_ready, from_due, from_own, from_ttl = {}, {}, {}, {}
    local to_leased, to_held, to_state, gone, gone_ids, gone_bodies, kept = {}, {}, {}, {}, {}, {}, {}
    local bytes = 0
    for k, number in ipairs(numbers) do
        local b = read_blob(number, blobs[k])
        local s = read_state(states[k], b)
        local ttl = b.ttl > 0 and b.ttl or t.ttl
        if ttl > 0 and s.from + ttl <= at then
            expired = true
        else
            bytes = bytes + b.length
            if bytes > left and not (first and jobs == 0) then break end
            if bytes > room and jobs > 0 then
                more = 1
                break
            end
            while given == asks[whom][1] do whom, given = whom + 1, 0 end
            given = given + 1
            local ttr, consumer = asks[whom][2], asks[whom][3]
            if ttr == 0 then ttr = b.ttr > 0 and b.ttr or (t.ttr > 0 and t.ttr or usual) end
            local secret = sub(ARGV[5], jobs * 8 + 1, jobs * 8 + 8)
            local attempt, leases = math.min(s.attempt + 1, 4294967295), math.min(s.leases + 1, 4294967295)
            local version = pack('>I7', last + k)
            local expires = up + ttr
            local state = 'l' .. version .. pack('>I6I6I4I4I4', s.due, s.from, s.priority, attempt, leases)
                .. s.counters .. ARGV[4] .. pack('>I6I4', expires, ttr) .. version .. secret
                .. consumer .. s.rest
            jobs = jobs + 1
            add(whom, number, b.raw, state, body_of(number, b))
            from_ready[#from_ready + 1] = found[k][4]
            from_due[#from_due + 1] = due_member(number, s.priority, line)
            if b.ttl > 0 then
                from_own[#from_own + 1] = number
            elseif t.ttl > 0 then
                from_ttl[#from_ttl + 1] = number
            end
            if acks then
                remember(t, number, last + k, b, s, attempt)
                gone[#gone + 1] = number
                gone_ids[#gone_ids + 1] = b.id
                if b.flags % 2 == 1 then gone_bodies[#gone_bodies + 1] = number end
            else
                to_leased[#to_leased + 1] = expires
                to_leased[#to_leased + 1] = number
                passes(t, expires)
                to_held[#to_held + 1] = s.due
                to_held[#to_held + 1] = number
                to_state[#to_state + 1] = number
                to_state[#to_state + 1] = state
                kept[#kept + 1] = number .. secret .. string.char(whom)
            end
        end
    end
    if jobs > 0 then
        call('ZREM', t.key .. ':due', unpack(from_due))
        if promoted then
            call('ZREM', ready, unpack(from_ready))
            t.n, t.moved = t.n - jobs, true
        end
        leave_line(t, line, jobs)
        if #from_own > 0 then call('ZREM', t.key .. ':own', unpack(from_own)) end
        if #from_ttl > 0 then call('ZREM', t.key .. ':ttl', unpack(from_ttl)) end
        if acks then
            call('HDEL', t.key .. ':ids', unpack(gone_ids))
            call('HDEL', P .. ':jobs', unpack(gone))
            call('HDEL', P .. ':state', unpack(gone))
            if #gone_bodies > 0 then call('HDEL', P .. ':bodies', unpack(gone_bodies)) end
            count(t, 'acked', jobs)
        else
            call('ZADD', t.key .. ':leased', unpack(to_leased))
            call('ZADD', t.key .. ':held', unpack(to_held))
            call('HSET', P .. ':state', unpack(to_state))
            call('SET', memo, table.concat(kept), 'PX', 30000)
        end
        count(t, 'leased', jobs)
        take(t, jobs)
    end
end

local next = 0
if jobs > 0 and (jobs < #numbers or #numbers == wanted) then
    next = at
elseif jobs < most then
    local function sooner(instant)
        if instant and (next == 0 or instant < next) then next = instant end
    end
    sooner(open_at)
    sooner(head(t.key .. ':due', t.n))
    sooner(head(t.key .. ':leased'))
end
if jobs > 0 or t.moved then close() end
return say(jobs == 0 and expired and 1 or 0, next, more)
