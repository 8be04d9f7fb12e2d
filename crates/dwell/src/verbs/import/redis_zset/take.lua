-- Takes entries out that are as they were read: out of the queue first, out of the hash last.
--
-- KEYS   1 a sorted set, or a list of what is due  2 the hash  3 who imports
-- ARGV   1 this import; then for each entry 3 values: member, score or "", SHA-1 of the value or ""
-- RETURN an answer an entry: 1 taken out, 0 it is gone or has changed, and nothing was done
-- ATOMIC One script: an old consumer has it wholly before, and it is gone, or never.

local is_list = redis.call('TYPE', KEYS[1]).ok == 'list'
local answers = {}
for i = 2, #ARGV, 3 do
    local value = redis.call('HGET', KEYS[2], ARGV[i])
    local same = (value and redis.sha1hex(value) or '') == ARGV[i + 2]
    if same and ARGV[i + 1] ~= '' then
        same = redis.call('ZSCORE', KEYS[1], ARGV[i]) == ARGV[i + 1] and redis.call('ZREM', KEYS[1], ARGV[i]) == 1
    elseif same then
        same = is_list and redis.call('LREM', KEYS[1], 1, ARGV[i]) == 1
    end
    if same then redis.call('HDEL', KEYS[2], ARGV[i]) end
    answers[#answers + 1] = same and 1 or 0
end
return answers
