-- As far ahead of the clock as locks rest behind a loss: when the first is granted again, the clock is ahead of it, so
  -- that data which are put back twice do not count on from it twice. It is flushed before any join sees it.
  UPDATE {schema}.state s
    SET token_ceiling = greatest({clock}, s.token_floor) + (s.timeout_max_ms << 20), mark = {mark}
    WHERE s.token_ceiling < greatest({clock}, s.token_floor) + (s.timeout_max_ms << 19)
      AND {is_settled_row} AND {has_start}
      AND current_setting('lockkeeper.commit', true) IS DISTINCT FROM 'sync';
