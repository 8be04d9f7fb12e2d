-- Reads up to 100 jobs of a topic that time has done something to and nobody has seen to. Forgets acked jobs that the
-- topic has remembered for long enough.
--
-- KEYS   1 the partition
-- ARGV   1 clock  2 topic  3 most jobs
-- RETURN {time, time rounded up, "" or the policy, jobs}; a job is {number, blob, state or ""}
-- ATOMIC One script, one slot. What becomes of the jobs is the caller's rule and move.lua's step.
-- AGAIN  It may be repeated at will: what it forgets is over for everybody.

local t = open(ARGV[2])
if not t then
    call('ZREM', P .. ':agenda', ARGV[2])
    return { at, up, '', {} }
end
local forgotten = forget(t, 100)
local jobs = {}
for _, number in ipairs(overdue(t, tonumber(ARGV[3]))) do
    local blob = call('HGET', P .. ':jobs', number)
    jobs[#jobs + 1] = { number, blob, call('HGET', P .. ':state', number) or '' }
end
if #jobs == 0 or forgotten > 0 then
    t.recount = true
    close()
end
return { at, up, t.policy, jobs }
