s.started = pg_postmaster_start_time() AND s.mark = s.xmin
      AND (s.token_ceiling = 0 OR {has_start})
