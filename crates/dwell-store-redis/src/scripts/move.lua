-- Gives up to 100 jobs the state that the caller worked out from what it read, each only if nobody changed it since.
--
-- KEYS   1 the partition
-- ARGV   1 clock  2 "1" if this may be a repeat, else "0"; then for each job 6 values: number; the version it must have;
--        new state, or "" to remove it; new blob, or "" if that stays; new body kept apart, or "" for none (counts only
--        with a new blob); what to count, as name=by,name=by
-- RETURN an answer a job: {1, version} if done, {0} if the job is not there, {2} if it has another version
-- ATOMIC One script, one slot: version and move are one step. The rules are the caller's; here is only compared.
-- AGAIN  A state has the id of the request that wrote it: a repeat that finds its own answers as before. A repeat that
--        finds no job to remove answers that it is done.

local answers = {}
local last = counts((#ARGV - 2) / 6)
for i = 3, #ARGV, 6 do
    local number, wanted, state, blob = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
    local b, s = fetch(number)
    local t = b and open(b.topic)
    local answer = { 2 }
    if not t then
        answer = (ARGV[2] == '1' and state == '') and { 1, wanted } or { 0 }
    elseif s.version == wanted then
        last = last + 1
        local version = pack('>I7', last)
        if state == '' then
            remove(t, number, b, s)
        else
            lift(t, number, b, s)
            -- A lease that begins now has the version that it gives the job.
            local begins = sub(state, 1, 1) == 'l' and sub(state, 67, 73) == '\0\0\0\0\0\0\0'
            state = sub(state, 1, 1) .. version .. sub(state, 9)
            if begins then state = sub(state, 1, 66) .. version .. sub(state, 74) end
            if blob ~= '' then
                call('HSET', P .. ':jobs', number, blob)
                if b.flags % 2 == 1 then call('HDEL', P .. ':bodies', number) end
                if ARGV[i + 4] ~= '' then call('HSET', P .. ':bodies', number, ARGV[i + 4]) end
                b = read_blob(number, blob)
            end
            call('HSET', P .. ':state', number, state)
            place(t, number, b, read_state(state, b))
        end
        for what, by in string.gmatch(ARGV[i + 5], '([%a_]+)=(%d+)') do
            count(t, what, tonumber(by))
            if what == 'leased' then take(t, tonumber(by)) end
        end
        answer = { 1, version }
    elseif ARGV[2] == '1' and state ~= '' and s.rid == sub(state, 49, 56) then
        answer = { 1, s.version }
    end
    answers[#answers + 1] = answer
end
close()
return answers
