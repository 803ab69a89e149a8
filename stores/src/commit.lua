-- One turn of a session. Answers 1, or 0 if another process has taken the session over.
-- KEYS: the session, messages sent, messages received, the queue, notes.
if redis.call('HGET', KEYS[1], 'writer') ~= ARGV[1] then
    return 0
end
redis.call('HSET', KEYS[1], 'next_in', ARGV[2], 'next_out', ARGV[3], 'created_ns', ARGV[4])
if ARGV[5] == '1' then
    redis.call('DEL', KEYS[2], KEYS[3])
end
if ARGV[6] ~= '0' then
    redis.call('ZREMRANGEBYSCORE', KEYS[2], ARGV[6], '+inf')
end
if ARGV[7] ~= '0' then
    redis.call('ZREMRANGEBYSCORE', KEYS[4], '-inf', ARGV[7])
end
local at = 8
for key = 2, 4 do
    local count = tonumber(ARGV[at])
    for n = 1, count do
        local seq = ARGV[at + 2 * n - 1]
        redis.call('ZREMRANGEBYSCORE', KEYS[key], seq, seq)
        redis.call('ZADD', KEYS[key], seq, ARGV[at + 2 * n])
    end
    at = at + 1 + 2 * count
end
for n = 1, tonumber(ARGV[at]) do
    redis.call('RPUSH', KEYS[5], ARGV[at + n])
end
return 1
