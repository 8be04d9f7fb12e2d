-- Acks up to 100 leases.
--
-- KEYS   1 the partition
-- ARGV   1 clock  2 "1" if this may be a repeat, else "0"; then for each lease 2 values: number, version and secret
-- RETURN an answer a lease: 1 done, 0 lost
-- ATOMIC One script, one slot: the token is compared and the job removed in one step.
-- AGAIN  A repeat that finds no job answers that it is done.

local answers = {}
local last = versions((#ARGV - 2) / 2)
for i = 3, #ARGV, 2 do
    local number = ARGV[i]
    local b, s = fetch(number)
    local t = b and open(b.topic)
    if not b then
        answers[#answers + 1] = ARGV[2] == '1' and 1 or 0
    elseif t and s.phase == 'l' and s.token == ARGV[i + 1] and s.expires > at then
        last = last + 1
        remember(t, number, last, b, s, s.attempt)
        remove(t, number, b, s)
        count(t, 'acked', 1)
        answers[#answers + 1] = 1
    else
        answers[#answers + 1] = 0
    end
end
close()
return answers
