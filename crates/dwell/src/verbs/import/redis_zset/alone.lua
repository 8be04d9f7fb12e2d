-- What every script of an import begins with: only one import is at work, or the second would take what the first has just
-- put for a job that an old consumer took, and cancel it. An import that ended without a word is over after ten seconds.

local holder = redis.call('GET', KEYS[3])
if holder and holder ~= ARGV[1] then return redis.error_reply('IMPORTING ' .. holder) end
redis.call('SET', KEYS[3], ARGV[1], 'PX', 10000)
