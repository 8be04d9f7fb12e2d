-- Acks up to 100 leases.
--
-- KEYS   1 the partition
-- ARGV   1 clock  2 "1" if this may be a repeat, else "0"  3 for each lease number (7), version (7) and secret (8)
-- RETURN a string, a byte a lease: "1" done, "0" lost
-- ATOMIC One script, one slot: the token is compared and the job removed in one step.
-- AGAIN  A repeat that finds no job answers that it is done.

local numbers = {}
for i = 1, #ARGV[3], 22 do numbers[#numbers + 1] = sub(ARGV[3], i, i + 6) end
local blobs = call('HMGET', P .. ':jobs', unpack(numbers))
local states = call('HMGET', P .. ':state', unpack(numbers))
local answers, gone, bodies, ids, last = {}, {}, {}, {}, nil
for k, number in ipairs(numbers) do
    local b = blobs[k] and read_blob(number, blobs[k])
    local t = b and open(b.topic)
    local s = t and read_state(states[k], b)
    if not b or gone[number] then
        answers[k] = ARGV[2] == '1' and '1' or '0'
    elseif t and s.phase == 'l' and s.token == sub(ARGV[3], k * 22 - 14, k * 22) and s.expires > at then
        if t.keepd > 0 then
            last = (last or counts(#numbers)) + 1
            remember(t, number, last, b, s, s.attempt)
        end
        if t.inflight > 0 then t.wake = true end
        local of_topic = ids[t] or { ids = {}, numbers = {} }
        ids[t] = of_topic
        of_topic.ids[#of_topic.ids + 1] = b.id
        of_topic.numbers[#of_topic.numbers + 1] = number
        if b.flags % 2 == 1 then bodies[#bodies + 1] = number end
        gone[number] = true
        gone[#gone + 1] = number
        answers[k] = '1'
    else
        answers[k] = '0'
    end
end
if #gone > 0 then
    for t, of_topic in pairs(ids) do
        call('ZREM', t.key .. ':leased', unpack(of_topic.numbers))
        call('ZREM', t.key .. ':held', unpack(of_topic.numbers))
        call('HDEL', t.key .. ':ids', unpack(of_topic.ids))
        count(t, 'acked', #of_topic.numbers)
    end
    call('HDEL', P .. ':jobs', unpack(gone))
    call('HDEL', P .. ':state', unpack(gone))
    if #bodies > 0 then call('HDEL', P .. ':bodies', unpack(bodies)) end
    close()
end
return table.concat(answers)
