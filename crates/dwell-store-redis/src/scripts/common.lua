-- What every script begins with: the clock, the records, a topic's sets, and how a job is put into them and taken out.
--
-- KEYS[1] is the partition's base, which is itself a key: the partition's counter. Every other key a script touches is
-- made from it and has its hash tag, so that all of them are in one slot. ARGV[1] begins with 7 bytes, the largest count
-- of any partition that the caller has seen; then comes the clock: "0", or what tests add to the engine's time in
-- milliseconds, or "=" and the time itself.

local P = KEYS[1]
local call = redis.call
local pack, unpack_ = struct.pack, struct.unpack
local sub, byte = string.sub, string.byte

local function text(number) return string.format('%.0f', number) end

-- Time: `at` is rounded down, for what is due; `up` is rounded up, for what delays count from.
local time = call('TIME')
local micros = tonumber(time[1]) * 1000000 + tonumber(time[2])
local at, up
if byte(ARGV[1], 8) == 61 then
    at = tonumber(sub(ARGV[1], 9))
    up = at
else
    local moved = tonumber(sub(ARGV[1], 8))
    at = math.floor(micros / 1000) + moved
    up = math.ceil(micros / 1000) + moved
end

-- Takes so many counts, of which versions and numbers are made; the one before the first. They grow, also over a fail-over
-- that lost the newest: they are behind neither the engine's time, of which they take two a microsecond, nor what the
-- caller has seen.
local BEGIN = 1704067200000000
local function counts(many)
    local least = math.max((micros - BEGIN) * 2, (unpack_('>I7', ARGV[1])))
    local last = tonumber(call('SET', P, text(least + many), 'GET') or '0')
    if last <= least then return least end
    call('SET', P, text(last + many))
    return last
end

local function head(key, place)
    local first = call('ZRANGE', key, place or 0, place or 0, 'WITHSCORES')
    return first[2] and tonumber(first[2]) or nil, first[1]
end

-- A topic's record, read once a script. `n` jobs of its `due` set, those up to (`cs`, `cn`), are in their ready sets. It has
-- few fields, because each is searched for: what its policy and pause say is one, what moves with its jobs another.
local RULE, MARK = '>I7I4I6I4I6I7I6I6I1', '>I6I7I6I7I6'
local opened = {}
local function open(name)
    local t = opened[name]
    if t ~= nil then return t end
    local key = P .. ':t:' .. name
    local f = call('HMGET', key, 'rule', 'mark', 'policy')
    if not f[1] then
        opened[name] = false
        return false
    end
    t = { name = name, key = key, policy = f[3], totals = {} }
    t.pause, t.ttr, t.ttl, t.inflight, t.rate, t.burst, t.keepb, t.keepd, t.push = unpack_(RULE, f[1])
    t.cs, t.cn, t.n, t.level, t.filled = unpack_(MARK, f[2])
    t.pause, t.keepb, t.push, t.cs = t.pause - 1, t.keepb - 1, t.push == 1, t.cs - 1
    opened[name] = t
    return t
end

local function rule_of(t)
    return pack(RULE, t.pause + 1, t.ttr, t.ttl, t.inflight, t.rate, t.burst, t.keepb + 1, t.keepd, t.push and 1 or 0)
end
local function mark_of(t) return pack(MARK, t.cs + 1, t.cn, t.n, t.level, t.filled) end

local function count(t, what, by)
    t.totals[what] = (t.totals[what] or 0) + by
end

-- Notes that a job is due at an instant, before it goes into the due set; if that is sooner than all that is there, those
-- who wait are told.
local function comes(t, due)
    if t.first == nil then t.first = head(t.key .. ':due', t.n) or false end
    if not t.soonest or due < t.soonest then t.soonest = due end
end

-- Notes when time will do something to a job of the topic.
local function passes(t, instant)
    if not t.passage or instant < t.passage then t.passage = instant end
end

-- When time will next do something to a job of the topic, or nil.
local function next_passage(t)
    local next = head(t.key .. ':leased')
    local function sooner(score, rest)
        if score and (not next or score + rest < next) then next = score + rest end
    end
    sooner(head(t.key .. ':own'), 0)
    if t.ttl > 0 then sooner(head(t.key .. ':ttl'), t.ttl) end
    if t.keepb >= 0 then sooner(head(t.key .. ':old'), t.keepb) end
    sooner(head(t.key .. ':donez'), t.keepd)
    return next
end

-- Writes back what changed, keeps the agenda, and tells those who wait if something is due sooner than it was. What the
-- agenda says of a topic is never too late; it may be too soon, until somebody looks (`recount`).
local function close()
    for _, t in pairs(opened) do
        if t then
            if t.moved then call('HSET', t.key, 'mark', mark_of(t)) end
            for what, by in pairs(t.totals) do call('HINCRBY', t.key, what, by) end
            if t.recount then
                local passage = next_passage(t)
                if passage then
                    call('ZADD', P .. ':agenda', passage, t.name)
                else
                    call('ZREM', P .. ':agenda', t.name)
                end
            elseif t.passage then
                call('ZADD', P .. ':agenda', 'LT', t.passage, t.name)
            end
            local sooner = t.soonest and (not t.first or t.soonest < t.first)
            if t.wake or sooner then
                local pushes = (t.push or call('EXISTS', t.key .. ':lines') == 1) and '1' or '0'
                local when = t.wake and '0' or text(t.soonest)
                call('SPUBLISH', P .. ':wake', pushes .. ' ' .. when .. ' ' .. t.name)
            end
        end
    end
end

-- The head of a blob. What few jobs set is there only if they do. A job that nothing has happened to has its number for a
-- version.
local function read_blob(number, blob)
    local b = { raw = blob, version = number, flags = byte(blob, 17) }
    b.created, b.due, b.priority = unpack_('>I6I6I4', blob)
    b.ttr, b.ttl, b.line = 0, 0, 0
    local next = 18
    if b.flags % 8 >= 4 then b.ttr, b.ttl, b.line, next = unpack_('>I4I6I2', blob, 18) end
    b.length, next = unpack_(b.flags % 2 == 1 and '>I4' or '>I2', blob, next)
    local name = byte(blob, next)
    b.topic = sub(blob, next + 1, next + name)
    next = next + name + 1
    b.id = sub(blob, next + 1, next + byte(blob, next))
    return b
end

-- The head of a state; of a job that nothing has happened to, what its blob says. `rest` is what outlives its phase.
local function read_state(state, b)
    if not state then
        local from = b.due > b.created and b.due or b.created
        return {
            phase = 'w', version = b.version, due = b.due, from = from, priority = b.priority, attempt = 0,
            leases = 0, counters = string.rep('\0', 16), rid = '', rest = '\255\255',
        }
    end
    local s = { phase = sub(state, 1, 1), version = sub(state, 2, 8), rid = sub(state, 49, 56) }
    s.due, s.from, s.priority, s.attempt, s.leases = unpack_('>I6I6I4I4I4', state, 9)
    s.counters = sub(state, 33, 48)
    if s.phase == 'w' then
        s.rest = sub(state, 57)
    elseif s.phase == 'l' then
        s.expires = unpack_('>I6', state, 57)
        s.token = sub(state, 67, 81)
        s.rest = sub(state, 83 + byte(state, 82))
    else
        s.buried = unpack_('>I6', state, 57)
    end
    return s
end

local function value(number) return (unpack_('>I7', number)) end

-- The rank of the first member of a set by due time that comes after (score, number).
local function rank_after(key, score, last)
    local low = call('ZCOUNT', key, '-inf', '(' .. text(score))
    local high = low + call('ZCOUNT', key, score, score)
    while low < high do
        local middle = math.floor((low + high) / 2)
        local member = call('ZRANGE', key, middle, middle)[1]
        if value(sub(member, 1, 7)) <= last then low = middle + 1 else high = middle end
    end
    return low
end

local function is_promoted(t, due, number)
    return due < t.cs or (due == t.cs and value(number) <= t.cn)
end

local function due_member(number, priority, line) return number .. pack('>I4I2', priority, line) end
local function ready_member(due, number) return pack('>I6', due) .. number end
local function ready_key(t, line) return t.key .. ':ready:' .. text(line) end

-- Puts a job into the sets of its phase.
local function place(t, number, b, s)
    if s.phase == 'l' then
        call('ZADD', t.key .. ':leased', s.expires, number)
        call('ZADD', t.key .. ':held', s.due, number)
        passes(t, s.expires)
    elseif s.phase == 'b' then
        call('ZADD', t.key .. ':buried', s.due, number)
        call('ZADD', t.key .. ':old', s.buried, number)
        if t.keepb >= 0 then passes(t, s.buried + t.keepb) end
    else
        local promoted = is_promoted(t, s.due, number)
        if not promoted then comes(t, s.due) end
        call('ZADD', t.key .. ':due', s.due, due_member(number, s.priority, b.line))
        if promoted then
            local ready = ready_key(t, b.line)
            call('ZADD', ready, s.priority, ready_member(s.due, number))
            if call('ZCARD', ready) == 1 then t.wake = true end
            t.n = t.n + 1
            t.moved = true
        end
        if b.line > 0 then
            call('HINCRBY', t.key .. ':lines', b.line, 1)
            call('SADD', P .. ':push', t.name)
        end
        if b.ttl > 0 then
            call('ZADD', t.key .. ':own', s.from + b.ttl, number)
            passes(t, s.from + b.ttl)
        elseif t.ttl > 0 then
            call('ZADD', t.key .. ':ttl', s.from, number)
            passes(t, s.from + t.ttl)
        end
    end
end

-- One job fewer waits on a push line.
local function leave_line(t, line, jobs)
    if line > 0 and call('HINCRBY', t.key .. ':lines', line, -jobs) <= 0 then
        call('HDEL', t.key .. ':lines', line)
    end
end

-- Takes a job out of the sets of its phase.
local function lift(t, number, b, s)
    if s.phase == 'l' then
        call('ZREM', t.key .. ':leased', number)
        call('ZREM', t.key .. ':held', number)
        if t.inflight > 0 then t.wake = true end
    elseif s.phase == 'b' then
        call('ZREM', t.key .. ':buried', number)
        call('ZREM', t.key .. ':old', number)
    else
        call('ZREM', t.key .. ':due', due_member(number, s.priority, b.line))
        if is_promoted(t, s.due, number) then
            call('ZREM', ready_key(t, b.line), ready_member(s.due, number))
            t.n = t.n - 1
            t.moved = true
        end
        leave_line(t, b.line, 1)
        if b.ttl > 0 then
            call('ZREM', t.key .. ':own', number)
        elseif t.ttl > 0 then
            call('ZREM', t.key .. ':ttl', number)
        end
    end
end

local function fetch(number)
    local blob = call('HGET', P .. ':jobs', number)
    if not blob then return nil end
    local b = read_blob(number, blob)
    return b, read_state(call('HGET', P .. ':state', number), b)
end

-- Takes a job out of everything.
local function remove(t, number, b, s)
    lift(t, number, b, s)
    call('HDEL', t.key .. ':ids', b.id)
    call('HDEL', P .. ':jobs', number)
    call('HDEL', P .. ':state', number)
    if b.flags % 2 == 1 then call('HDEL', P .. ':bodies', number) end
end

-- Remembers an acked job for as long as its topic says.
local function remember(t, number, version, b, s, attempt)
    if t.keepd > 0 then
        call('HSET', t.key .. ':done', b.id,
            number .. pack('>I7I6I6I4I6', version, b.created, s.due, attempt, at))
        call('ZADD', t.key .. ':donez', at, b.id)
        passes(t, at + t.keepd)
    end
end

-- Forgets acked jobs that the topic has remembered for long enough; how many.
local function forget(t, limit)
    local ids = call('ZRANGEBYSCORE', t.key .. ':donez', '-inf', at - t.keepd, 'LIMIT', 0, limit)
    if #ids > 0 then
        call('HDEL', t.key .. ':done', unpack(ids))
        call('ZREM', t.key .. ':donez', unpack(ids))
    end
    return #ids
end

-- Jobs of the topic that time has done something to and nobody has seen to: leases that ran out, ttls, dead letters.
local function overdue(t, limit)
    local found = {}
    local function add(key, latest)
        if #found < limit then
            local more = call('ZRANGEBYSCORE', t.key .. key, '-inf', latest, 'LIMIT', 0, limit - #found)
            for _, number in ipairs(more) do found[#found + 1] = number end
        end
    end
    add(':leased', at)
    add(':own', at)
    if t.ttl > 0 then add(':ttl', at - t.ttl) end
    if t.keepb >= 0 then add(':old', at - t.keepb) end
    return found
end

-- Whether there are such jobs.
local function is_overdue(t)
    local passage = call('ZSCORE', P .. ':agenda', t.name)
    return passage and tonumber(passage) <= at and #overdue(t, 1) > 0
end

-- Moves what is due into the ready sets, up to `limit` jobs.
local function promote(t, limit)
    local left = math.min(limit, call('ZCOUNT', t.key .. ':due', '-inf', at) - t.n)
    if left <= 0 then return end
    local due = call('ZRANGE', t.key .. ':due', t.n, t.n + left - 1, 'WITHSCORES')
    local lines = {}
    for i = 1, #due, 2 do
        local score = tonumber(due[i + 1])
        local number = sub(due[i], 1, 7)
        local priority, line = unpack_('>I4I2', due[i], 8)
        local add = lines[line] or {}
        lines[line] = add
        add[#add + 1] = priority
        add[#add + 1] = ready_member(score, number)
        t.cs, t.cn, t.n, t.moved = score, value(number), t.n + 1, true
    end
    for line, add in pairs(lines) do call('ZADD', ready_key(t, line), unpack(add)) end
end

-- How many jobs the topic's pause, `max_in_flight` and `max_rate` let go now; and, if none, from when on it may be more.
-- Jobs acked as they are handed out are in flight for no time.
local function allowance(t, acks)
    if t.pause < 0 then return 0 end
    if t.pause > at then return 0, t.pause end
    local most = 1000000
    if t.inflight > 0 then
        local free = math.max(0, t.inflight - call('ZCARD', t.key .. ':leased'))
        if free == 0 or not acks then most = free end
    end
    if t.rate > 0 then
        local level = math.min(t.burst, t.level + math.max(0, at - t.filled) * t.rate)
        local whole = math.floor(level / 1000000)
        if whole == 0 then return 0, at + math.ceil((1000000 - level) / t.rate) end
        most = math.min(most, whole)
    end
    return most
end

-- Takes jobs that went from the topic's bucket; who names a job gets it though the bucket is empty.
local function take(t, jobs)
    if t.rate > 0 then
        local level = math.min(t.burst, t.level + math.max(0, at - t.filled) * t.rate)
        t.level = math.max(0, level - jobs * 1000000)
        t.filled = math.max(t.filled, at)
        t.moved = true
    end
end

-- The body, if it is kept apart.
local function body_of(number, b)
    if b.flags % 2 == 1 then return call('HGET', P .. ':bodies', number) or '' end
    return ''
end
