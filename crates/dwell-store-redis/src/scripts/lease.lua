-- Hands out up to 100 jobs of one topic and line, best first, to one or several who ask.
--
-- KEYS   1 the partition
-- ARGV   1 clock  2 topic  3 line  4 "1" if a courier asks, else "0"  5 most bytes of bodies in this call (one job always
--        fits)  6 the server's ttr  7 "1" to ack at once, else "0"  8 request id (8 bytes)  9 "1" to go on although time
--        has done things nobody has seen to, else "0"  10 secrets, 8 bytes a job  11 "1" if this may be a repeat, else "0"
--        12 most bytes of bodies in all that is left of the answer  13 "1" if the answer has no job yet, so that one
--        fits anyway, else "0"; then for each who asks, in the order in which they are served, 3 values: most jobs, ttr
--        asked for or 0, consumer or ""
-- RETURN {time, code, next, policy, jobs, more}; code 0, or 1 if time has done things that must be seen to first; next: from
--        when on there may be more, or -1; a job is {number, blob, state, body kept
--        apart or "", for whom: 1 the first}; more is 1 if a job did not fit this call
-- ATOMIC One script, one slot: what is due is promoted, chosen, leased or acked in one step, so that no two calls get
--        one job, and a cancellation comes wholly before or after.
-- AGAIN  The numbers handed out are kept under the request's id for 30 s: a repeat is given the same leases again.

local t = open(ARGV[2])
local line, room = tonumber(ARGV[3]), tonumber(ARGV[5])
local acks = ARGV[7] == '1'
local left, first = tonumber(ARGV[12]), ARGV[13] == '1'
local more = 0
local memo = P .. ':call:' .. ARGV[8]
if not t then return { at, 0, -1, '', {}, 0 } end

if ARGV[11] == '1' then
    local kept = call('GET', memo)
    if kept then
        local jobs = {}
        for i = 1, #kept, 16 do
            local number = sub(kept, i, i + 6)
            local b, s = fetch(number)
            if b and s.phase == 'l' and sub(s.token, 8) == sub(kept, i + 7, i + 14) then
                local state = call('HGET', P .. ':state', number)
                jobs[#jobs + 1] = { number, b.raw, state, body_of(number, b), byte(kept, i + 15) }
            end
        end
        return { at, 0, -1, t.policy, jobs, 0 }
    end
end

if ARGV[9] == '0' and is_overdue(t) then return { at, 1, -1, '', {}, 0 } end
local pushed = line > 0 or t.push
if pushed ~= (ARGV[4] == '1') then return { at, 0, -1, '', {}, 0 } end

local most = 0
for i = 14, #ARGV, 3 do most = most + tonumber(ARGV[i]) end
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

local jobs, expired = {}, false
if #numbers > 0 then
    local blobs = call('HMGET', P .. ':jobs', unpack(numbers))
    local states = call('HMGET', P .. ':state', unpack(numbers))
    local last = versions(#numbers)
    local asks, given = 14, 0
    local from_ready, from_due, from_own, from_ttl = {}, {}, {}, {}
    local to_leased, to_held, to_state, gone, gone_ids, gone_bodies, kept = {}, {}, {}, {}, {}, {}, {}
    local bytes = 0
    for k, number in ipairs(numbers) do
        local b = read_blob(blobs[k])
        local s = read_state(states[k], b)
        local ttl = b.ttl > 0 and b.ttl or t.ttl
        if ttl > 0 and s.from + ttl <= at then
            expired = true
        else
            bytes = bytes + b.length
            if bytes > left and not (first and #jobs == 0) then break end
            if bytes > room and #jobs > 0 then
                more = 1
                break
            end
            while given == tonumber(ARGV[asks]) do asks, given = asks + 3, 0 end
            given = given + 1
            local ttr, consumer = tonumber(ARGV[asks + 1]), ARGV[asks + 2]
            if ttr == 0 then ttr = b.ttr > 0 and b.ttr or (t.ttr > 0 and t.ttr or tonumber(ARGV[6])) end
            local secret = sub(ARGV[10], #jobs * 8 + 1, #jobs * 8 + 8)
            local attempt, leases = math.min(s.attempt + 1, 4294967295), math.min(s.leases + 1, 4294967295)
            local version = pack('>I7', last + k)
            local expires = up + ttr
            local state = 'l' .. version .. pack('>I6I6I4I4I4', s.due, s.from, s.priority, attempt, leases)
                .. s.counters .. ARGV[8] .. pack('>I6I4', expires, ttr) .. version .. secret
                .. pack('>I1', #consumer) .. consumer .. s.rest
            local whom = (asks - 11) / 3
            jobs[#jobs + 1] = { number, b.raw, state, body_of(number, b), whom }
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
    if #jobs > 0 then
        call('ZREM', t.key .. ':due', unpack(from_due))
        if promoted then
            call('ZREM', ready, unpack(from_ready))
            t.n, t.moved = t.n - #jobs, true
        end
        leave_line(t, line, #jobs)
        if #from_own > 0 then call('ZREM', t.key .. ':own', unpack(from_own)) end
        if #from_ttl > 0 then call('ZREM', t.key .. ':ttl', unpack(from_ttl)) end
        if acks then
            call('HDEL', t.key .. ':ids', unpack(gone_ids))
            call('HDEL', P .. ':jobs', unpack(gone))
            call('HDEL', P .. ':state', unpack(gone))
            if #gone_bodies > 0 then call('HDEL', P .. ':bodies', unpack(gone_bodies)) end
            count(t, 'acked', #jobs)
        else
            call('ZADD', t.key .. ':leased', unpack(to_leased))
            call('ZADD', t.key .. ':held', unpack(to_held))
            call('HSET', P .. ':state', unpack(to_state))
            call('SET', memo, table.concat(kept), 'PX', 30000)
        end
        count(t, 'leased', #jobs)
        take(t, #jobs)
    end
end

local next = -1
if #jobs > 0 and (#jobs < #numbers or #numbers == wanted) then
    next = at
elseif #jobs < most then
    local function sooner(instant)
        if instant and (next < 0 or instant < next) then next = instant end
    end
    sooner(open_at)
    sooner(head(t.key .. ':due', t.n))
    sooner(head(t.key .. ':leased'))
end
if #jobs > 0 or t.moved then close() end
return { at, #jobs == 0 and expired and 1 or 0, next, t.policy, jobs, more }
