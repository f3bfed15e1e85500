IF p_whole THEN
    SELECT {what_contender} AS what, c.ticket, c.token AS number, c.place, c.mode FROM {schema}.contender c
      WHERE c.name = p_name AND c.part = p_part ORDER BY c.token, c.place, c.ticket;
  ELSE
    -- The place, and those right ahead: all of them in most queues.
    SELECT {what_contender} AS what, c.ticket, c.token AS number, c.place, c.mode FROM {schema}.contender c
      WHERE {ahead}
      ORDER BY c.token DESC, c.place DESC, c.ticket DESC LIMIT {nearest};
    SET v_shown = FOUND_ROWS();
    IF v_shown = {nearest} THEN
      {long_view}
    END IF;
    IF v_has_behind AND v_modes <> (1 << v_mode) THEN
      SET v_kind = 0;
      WHILE v_kind < 8 DO
        IF v_modes & (1 << v_kind) THEN
          SELECT {what_contender} AS what, c.ticket, c.token AS number, c.place, c.mode FROM {schema}.contender c
            WHERE {behind} AND c.mode = v_kind
            ORDER BY c.token, c.place, c.ticket LIMIT 1;
        END IF;
        SET v_kind = v_kind + 1;
      END WHILE;
    END IF;
  END IF;
  -- All contenders in a part of a semaphore have one mode, so that any of them is as good as the first.
  IF p_part = 0 THEN
    SELECT {what_elsewhere} AS what, c.mode FROM {schema}.contender c WHERE c.name = p_name AND c.part > 0 LIMIT 1;
  ELSE
    SELECT {what_elsewhere} AS what, c.mode FROM {schema}.contender c WHERE c.name = p_name AND c.part = 0
      ORDER BY c.token, c.place, c.ticket LIMIT 1;
  END IF;
