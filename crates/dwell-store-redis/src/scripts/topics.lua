-- Names topics of the partition, in order; or counts them.
--
-- KEYS   1 the partition
-- ARGV   1 clock  2 from where on, as ZRANGEBYLEX wants it  3 up to where  4 most names; 0 to count all there are
-- RETURN names, or how many
-- ATOMIC It changes nothing.
-- AGAIN  It changes nothing.

if ARGV[4] == '0' then return call('ZCARD', P .. ':topics') end
return call('ZRANGEBYLEX', P .. ':topics', ARGV[2], ARGV[3], 'LIMIT', 0, tonumber(ARGV[4]))
