-- Takes a row of numbers for new jobs.
--
-- KEYS   1 the counter
-- ARGV   1 clock  2 how many  3 the largest this server has seen
-- RETURN the number before the first of the row
-- ATOMIC One script, one key. The counter is never behind the engine's time nor behind what any server has seen, so that
--        a fail-over that lost the newest does not give them out again.
-- AGAIN  A repeat takes another row; the first is never used.

local last = tonumber(call('GET', P) or '0')
local least = math.max((math.floor(micros / 1000) - BEGIN) * 16, tonumber(ARGV[3]))
if last < least then last = least end
call('SET', P, text(last + tonumber(ARGV[2])))
return last
