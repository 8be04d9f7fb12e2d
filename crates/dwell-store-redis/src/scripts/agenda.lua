-- Names topics of the partition in which time has done something that nobody has seen to.
--
-- KEYS   1 the partition
-- ARGV   1 clock  2 most topics
-- RETURN {time, topics}
-- ATOMIC It changes nothing.
-- AGAIN  It changes nothing.

return { at, call('ZRANGEBYSCORE', P .. ':agenda', '-inf', at, 'LIMIT', 0, tonumber(ARGV[2])) }
