-- Hands out up to 100 jobs of one topic and line, best first.
--
-- KEYS   1 the partition
-- ARGV   1 clock  2 topic  3 line  4 "1" if a courier asks, else "0"  5 most jobs  6 most bytes of bodies in this
--        call (one job always fits)  7 ttr asked for or 0  8 the server's ttr  9 consumer or ""  10 "1" to ack at once, else "0"
--        11 request id (8 bytes)  12 "1" to go on although time has done things nobody has seen to, else "0"
--        13 secrets, 8 bytes a job  14 "1" if this may be a repeat, else "0"  15 most bytes of bodies in all
--        that is left of the answer  16 "1" if the answer has no job yet, so that one fits anyway, else "0"
-- RETURN {time, code, next, policy, jobs, more}; code 0, or 1 if time has done things that must be seen to first; next: with
--        no jobs, from when on there may be some, or -1; a job is {number, blob, state, body kept apart or ""};
--        more is 1 if a job did not fit this call
-- ATOMIC One script, one slot: what is due is promoted, chosen, leased or acked in one step, so that no two calls get
--        one job, and a cancellation comes wholly before or after.
-- AGAIN  The numbers handed out are kept under the request's id for 30 s: a repeat is given the same leases again.

local t = open(ARGV[2])
local line, most, room = tonumber(ARGV[3]), tonumber(ARGV[5]), tonumber(ARGV[6])
local acks = ARGV[10] == '1'
local left, first = tonumber(ARGV[15]), ARGV[16] == '1'
local more = 0
local memo = P .. ':call:' .. ARGV[11]
if not t then return { at, 0, -1, '', {}, 0 } end

if ARGV[14] == '1' then
    local kept = call('GET', memo)
    if kept then
        local jobs = {}
        for i = 1, #kept, 15 do
            local number = sub(kept, i, i + 6)
            local b, s = fetch(number)
            if b and s.phase == 'l' and sub(s.token, 8) == sub(kept, i + 7, i + 14) then
                jobs[#jobs + 1] = { number, b.raw, call('HGET', P .. ':state', number), body_of(number, b) }
            end
        end
        return { at, 0, -1, t.policy, jobs, 0 }
    end
end

if ARGV[12] == '0' and #overdue(t, 1) > 0 then return { at, 1, -1, '', {}, 0 } end
local pushed = line > 0 or t.push
if pushed ~= (ARGV[4] == '1') then return { at, 0, -1, '', {}, 0 } end

promote(t, 200)
local ready = ready_key(t, line)
local allowed, open_at = allowance(t, acks)
local wanted = math.min(most, allowed, 100)
local entries = wanted > 0 and call('ZRANGE', ready, 0, wanted - 1, 'WITHSCORES') or {}
local numbers = {}
for i = 1, #entries, 2 do numbers[#numbers + 1] = sub(entries[i], 7) end

local jobs, expired = {}, false
if #numbers > 0 then
    local blobs = call('HMGET', P .. ':jobs', unpack(numbers))
    local states = call('HMGET', P .. ':state', unpack(numbers))
    local last = versions(#numbers)
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
            local ttr = tonumber(ARGV[7])
            if ttr == 0 then ttr = b.ttr > 0 and b.ttr or (t.ttr > 0 and t.ttr or tonumber(ARGV[8])) end
            local secret = sub(ARGV[13], #jobs * 8 + 1, #jobs * 8 + 8)
            local attempt, leases = math.min(s.attempt + 1, 4294967295), math.min(s.leases + 1, 4294967295)
            local version = pack('>I7', last + k)
            local expires = up + ttr
            local state = 'l' .. version .. pack('>I6I6I4I4I4', s.due, s.from, s.priority, attempt, leases)
                .. s.counters .. ARGV[11] .. pack('>I6I4', expires, ttr) .. version .. secret
                .. pack('>I1', #ARGV[9]) .. ARGV[9] .. s.rest
            jobs[#jobs + 1] = { number, b.raw, state, body_of(number, b) }
            from_ready[#from_ready + 1] = entries[k * 2 - 1]
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
                to_held[#to_held + 1] = s.due
                to_held[#to_held + 1] = number
                to_state[#to_state + 1] = number
                to_state[#to_state + 1] = state
                kept[#kept + 1] = number .. secret
            end
        end
    end
    if #jobs > 0 then
        call('ZREM', ready, unpack(from_ready))
        call('ZREM', t.key .. ':due', unpack(from_due))
        t.n, t.moved = t.n - #jobs, true
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
if #jobs == 0 then
    local function sooner(instant)
        if instant and (next < 0 or instant < next) then next = instant end
    end
    sooner(open_at)
    sooner(head(t.key .. ':due', t.n))
    sooner(head(t.key .. ':leased'))
end
if #jobs > 0 or t.moved then close() end
return { at, #jobs == 0 and expired and 1 or 0, next, t.policy, jobs, more }
