-- Names sessions that are dead by the service's clock and are not removed yet. ARGV: how many at most. Answers: how many
-- sessions there are, dead ones among them, and the names.
return { redis.call('ZCARD', sessions),
  redis.call('ZRANGEBYSCORE', sessions, '-inf', whole(vt), 'LIMIT', 0, ARGV[1]) }
