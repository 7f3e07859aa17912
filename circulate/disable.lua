-- disable: an endpoint gets no messages until somebody enables it.
--
-- KEYS[1]  webhooks  HASH  endpoint -> since, unix ms|why, of the disabled ones
-- ARGV[1]  the endpoint
-- ARGV[2]  why
--
-- Returns the endpoint's field now. An endpoint that is already disabled is not changed;
-- the first reason is the one that matters.

even_when_full(KEYS[1])
redis.call('HSETNX', KEYS[1], ARGV[1], format('%.0f', clock()) .. '|' .. ARGV[2])
return redis.call('HGET', KEYS[1], ARGV[1])
