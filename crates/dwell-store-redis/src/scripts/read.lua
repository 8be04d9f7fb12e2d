-- Reads up to 100 jobs.
--
-- KEYS   1 the partition
-- ARGV   1 clock  2 most bytes of bodies kept apart (one always fits), 0 for none; then for each job 2 values: its topic
--        and id, or "" and its number
-- RETURN {time, time rounded up, policies, answers}; policies are topic, policy, topic, policy …; an answer is {0} if
--        there is none, {1, number, blob, state or "", body kept apart or ""}, {2, what is remembered of an acked one},
--        {3} if it did not fit: ask again
-- ATOMIC One script, one slot: what is read of all of them is of one instant.
-- AGAIN  It changes nothing.

local room = tonumber(ARGV[2])
local answers, policies, known = {}, {}, {}
local bytes, bodies = 0, 0

local function policy_of(t)
    if not known[t.name] then
        known[t.name] = true
        policies[#policies + 1] = t.name
        policies[#policies + 1] = t.policy
    end
end

for i = 3, #ARGV, 2 do
    local number, t, done = ARGV[i + 1], nil, nil
    if ARGV[i] ~= '' then
        t = open(ARGV[i])
        number = t and call('HGET', t.key .. ':ids', ARGV[i + 1])
        if t and not number and t.keepd > 0 then
            done = call('HGET', t.key .. ':done', ARGV[i + 1])
            if done and unpack_('>I6', done, #done - 5) + t.keepd <= at then done = nil end
        end
    end
    local blob = number and call('HGET', P .. ':jobs', number)
    local answer = { 0 }
    if done then
        answer = { 2, done }
    elseif blob then
        local b = read_blob(number, blob)
        t = open(b.topic)
        local body = ''
        local fits = true
        if room > 0 and b.flags % 2 == 1 then
            fits = bodies == 0 or bytes + b.length <= room
            if fits then
                body = body_of(number, b)
                bytes, bodies = bytes + b.length, bodies + 1
            end
        end
        if t and fits then
            policy_of(t)
            answer = { 1, number, blob, call('HGET', P .. ':state', number) or '', body }
        elseif t then
            answer = { 3 }
        end
    end
    answers[#answers + 1] = answer
end
return { at, up, policies, answers }
