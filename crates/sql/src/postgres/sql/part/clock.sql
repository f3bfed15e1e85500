((date_part('epoch', clock_timestamp()) * 1000)::bigint << 20)
