-- Creates a topic if it is not there, and gives it a policy or a pause.
--
-- KEYS   1 the partition
-- ARGV   1 clock  2 topic  3 what: "create", "policy" or "pause"  4 the policy, as stored; for "pause" "on", "off" or
--        milliseconds  5 ttr or 0  6 ttl or 0  7 max_in_flight or 0  8 max_rate in thousandths or 0  9 its burst in
--        millionths  10 keep_buried or -1  11 keep_done or 0  12 "1" if the topic pushes, else "0"; for "create" and
--        "pause" these are those of a topic without a policy
-- RETURN {code, jobs left to be indexed}; code 1 done, 0 no such topic (of the end of a pause)
-- ATOMIC One script, one slot.
-- AGAIN  The same words set the same things; a bucket is filled only by a rate that is new.

local t = open(ARGV[2])
local key = P .. ':t:' .. ARGV[2]
local what, given = ARGV[3], ARGV[4]
if not t and what == 'pause' and given == 'off' then return { 0, 0 } end
if not t then
    local policy = what == 'policy' and given or ARGV[13]
    call('HSET', key, 'rule', pack(RULE, 1, 0, 0, 0, 0, 0, 0, 0, 0), 'mark', pack(MARK, 0, 0, 0, 0, 0), 'policy', policy)
    call('ZADD', P .. ':topics', 0, ARGV[2])
    opened[ARGV[2]] = nil
    t = open(ARGV[2])
end
if what == 'pause' then
    if given == 'on' then
        t.pause = -1
    elseif given == 'off' then
        t.pause = 0
    else
        local millis = tonumber(given)
        t.pause = millis == 0 and at or up + millis
    end
    call('HSET', key, 'rule', rule_of(t))
    t.wake = true
elseif what == 'policy' then
    local rate = tonumber(ARGV[8])
    if rate ~= t.rate then
        t.level, t.filled, t.moved = tonumber(ARGV[9]), at, true
    end
    local ttl, keepd = tonumber(ARGV[6]), tonumber(ARGV[11])
    if ttl == 0 and t.ttl > 0 then call('UNLINK', key .. ':ttl') end
    if ttl > 0 and t.ttl == 0 then call('HSET', key, 'indexed', '-1 0') end
    if keepd == 0 then call('UNLINK', key .. ':done', key .. ':donez') end
    t.ttr, t.ttl, t.keepb, t.keepd, t.push = tonumber(ARGV[5]), ttl, tonumber(ARGV[10]), keepd, ARGV[12] == '1'
    t.rate, t.burst, t.inflight = rate, tonumber(ARGV[9]), tonumber(ARGV[7])
    call('HSET', key, 'rule', rule_of(t), 'policy', given)
    if t.push then call('SADD', P .. ':push', t.name) end
    t.wake, t.recount = true, true
end
close()
return { 1, call('HGET', key, 'indexed') and 1 or 0 }
