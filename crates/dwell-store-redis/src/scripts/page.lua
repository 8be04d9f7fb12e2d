-- Reads a page of a topic's jobs of one section, by due time, then number.
--
-- KEYS   1 the partition
-- ARGV   1 clock  2 topic  3 section: "waiting", "delayed", "ready", "leased" or "buried"  4 due time and 5 number after
--        which the page begins, or "-1" and "0"  6 most jobs (up to 100)  7 most bytes of bodies (one job always
--        fits); -1 to leave out bodies kept apart  8 "1" to go on although time has done things nobody has seen to
-- RETURN {time, time rounded up, code, policy, jobs, more}; code 0, 1 if time has done things there that must be seen to
--        first, 2 if there is no such topic; a job is {number, blob, state or "", body kept apart or ""}; more is 1 if
--        a job is left that did not fit
-- ATOMIC One script, one slot: the page is of one instant.
-- AGAIN  It changes nothing.

local t = open(ARGV[2])
if not t then return { at, up, 2, '', {}, 0 } end
if ARGV[8] == '0' and #overdue(t, 1) > 0 then return { at, up, 1, '', {}, 0 } end
local sets = { waiting = ':due', delayed = ':due', ready = ':due', leased = ':held', buried = ':buried' }
local key = t.key .. sets[ARGV[3]]
local score, last = tonumber(ARGV[4]), tonumber(ARGV[5])
if ARGV[3] == 'delayed' and score < at then score, last = at, 9007199254740992 end
local most, room = tonumber(ARGV[6]), tonumber(ARGV[7])
local first = rank_after(key, score, last)
local members = call('ZRANGE', key, first, first + most, 'WITHSCORES')
local jobs, bytes, more = {}, 0, 0
for i = 1, #members, 2 do
    if ARGV[3] == 'ready' and tonumber(members[i + 1]) > at then break end
    local number = sub(members[i], 1, 7)
    local blob = call('HGET', P .. ':jobs', number)
    local b = read_blob(number, blob)
    bytes = bytes + b.length
    if #jobs == most or (room >= 0 and bytes > room and #jobs > 0) then
        more = 1
        break
    end
    local body = room >= 0 and body_of(number, b) or ''
    jobs[#jobs + 1] = { number, blob, call('HGET', P .. ':state', number) or '', body }
end
return { at, up, 0, t.policy, jobs, more }
