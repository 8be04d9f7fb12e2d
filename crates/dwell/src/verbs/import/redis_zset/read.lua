-- Reads some entries of a queue, and what is kept of them in the hash.
--
-- KEYS   1 a sorted set, or a list of what is due  2 the hash  3 who imports
-- ARGV   1 this import  2 "-inf" or the least score  3 how many to pass over  4 most entries  5 most bytes (one always fits)
-- RETURN entries; each is {member, score or "", value or false, SHA-1 of the value or ""}
-- ATOMIC It changes nothing but who imports. Members and values are of one moment.

local first, most = tonumber(ARGV[3]), tonumber(ARGV[4])
local step, found = 2, nil
if redis.call('TYPE', KEYS[1]).ok == 'list' then
    step, found = 1, redis.call('LRANGE', KEYS[1], first, first + most - 1)
else
    found = redis.call('ZRANGEBYSCORE', KEYS[1], ARGV[2], '+inf', 'WITHSCORES', 'LIMIT', first, most)
end
local entries, bytes = {}, 0
for i = 1, #found, step do
    local value = redis.call('HGET', KEYS[2], found[i])
    bytes = bytes + #found[i] + (value and #value or 0)
    if bytes > tonumber(ARGV[5]) and #entries > 0 then break end
    entries[#entries + 1] = { found[i], step == 2 and found[i + 1] or '', value, value and redis.sha1hex(value) or '' }
end
return entries
