-- Finds the job of a topic that is next in its state: the next handed out of line 0, the next due, the lease that ends
-- next, the dead letter redriven next.
--
-- KEYS   1 the partition
-- ARGV   1 clock  2 topic  3 state: "delayed", "ready", "leased" or "buried"  4 "1" to go on although time
--        has done things nobody has seen to, else "0"
-- RETURN {code, number or ""}; code 0, or 1 if time has done things there that must be seen to first
-- ATOMIC One script, one slot.
-- AGAIN  It may be repeated at will: it only promotes what is due.

local t = open(ARGV[2])
if not t then return { 0, '' } end
if ARGV[4] == '0' and is_overdue(t) then return { 1, '' } end
local key, first = t.key .. ':' .. ARGV[3], 0
if ARGV[3] == 'ready' then
    promote(t, 200)
    if t.moved then close() end
    key = ready_key(t, 0)
elseif ARGV[3] == 'delayed' then
    key = t.key .. ':due'
    first = call('ZCOUNT', key, '-inf', at)
end
local member = call('ZRANGE', key, first, first)[1]
if not member then return { 0, '' } end
return { 0, ARGV[3] == 'ready' and sub(member, 7) or sub(member, 1, 7) }
