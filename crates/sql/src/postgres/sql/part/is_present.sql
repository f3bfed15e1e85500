s.started = pg_postmaster_start_time() AND s.mark = s.xmin
