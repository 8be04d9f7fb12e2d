-- Says what is known of up to 20 topics.
--
-- KEYS   1 the partition
-- ARGV   1 clock  2 "1" to go on although time has done things nobody has seen to, else "0"; then names
-- RETURN {time, answers}; an answer is false if there is no such topic, 0 if time has done things there that must be
--        seen to first, or {name, delayed, ready, leased, buried, urgent, next due or -1, oldest ready or -1, pause,
--        policy, totals …}; urgent ones are counted among the 1,000 that have been due for longest
-- ATOMIC One script, one slot: all of it is of one instant.
-- AGAIN  It changes nothing.

local answers = {}
for i = 3, #ARGV do
    local t = open(ARGV[i])
    local answer = false
    if t and ARGV[2] == '0' and is_overdue(t) then
        answer = 0
    elseif t then
        local due = t.key .. ':due'
        local ready = call('ZCOUNT', due, '-inf', at)
        local oldest = ready > 0 and head(due) or -1
        local urgent = 0
        for _, member in ipairs(call('ZRANGEBYSCORE', due, '-inf', at, 'LIMIT', 0, 1000)) do
            if unpack_('>I4', member, 8) < 1024 then urgent = urgent + 1 end
        end
        answer = {
            t.name, call('ZCARD', due) - ready, ready, call('ZCARD', t.key .. ':leased'),
            call('ZCARD', t.key .. ':buried'), urgent, head(due, ready) or -1, oldest, t.pause, t.policy,
        }
        local totals = call('HMGET', t.key, 'put', 'leased', 'acked', 'nacked', 'timed_out', 'released', 'buried',
            'redriven', 'cancelled', 'purged')
        for k = 1, 10 do answer[10 + k] = tonumber(totals[k] or '0') end
    end
    answers[#answers + 1] = answer
end
return { at, answers }
