IF v_is_alone AND NOT v_has_behind THEN
    -- The place alone, which the answer has named last.
    what := {what_contender};
    RETURN NEXT;
  ELSIF p_whole THEN
    RETURN QUERY
      SELECT {what_contender}::smallint, c.ticket, NULL::uuid, c.token, c.place, c.mode,
        NULL::bigint, NULL::bigint, NULL::text, NULL::text, NULL::bytea
      FROM {schema}.contender c WHERE c.name = p_name AND c.part = v_part AND c.token >= v_head
      ORDER BY c.token, c.place, c.ticket;
  ELSE
    -- The place, and those right ahead: all of them in most queues.
    RETURN QUERY
      SELECT {what_contender}::smallint, c.ticket, NULL::uuid, c.token, c.place, c.mode,
        NULL::bigint, NULL::bigint, NULL::text, NULL::text, NULL::bytea
      FROM {schema}.contender c
      WHERE c.name = p_name AND c.part = v_part AND c.token >= v_head
        AND (c.token, c.place, c.ticket) <= (v_token, v_place, v_ticket)
      ORDER BY c.token DESC, c.place DESC, c.ticket DESC LIMIT {nearest};
    GET DIAGNOSTICS v_shown = ROW_COUNT;
    IF v_shown = {nearest} THEN
      {long_view}
    END IF;
    IF v_has_behind AND v_modes <> (1 << v_mode) THEN
      RETURN QUERY
        SELECT {what_contender}::smallint, n.ticket, NULL::uuid, n.token, n.place, n.mode,
          NULL::bigint, NULL::bigint, NULL::text, NULL::text, NULL::bytea
        FROM generate_series(0, 7) m CROSS JOIN LATERAL (
          SELECT c.ticket, c.token, c.place, c.mode FROM {schema}.contender c
          WHERE c.name = p_name AND c.part = v_part AND c.mode = m
            AND (c.token, c.place, c.ticket) > (v_token, v_place, v_ticket)
          ORDER BY c.token, c.place, c.ticket LIMIT 1) n
        WHERE v_modes & (1 << m) <> 0;
    END IF;
  END IF;
  -- All contenders in a part of a semaphore have one mode, so that any of them is as good as the first.
  v_mode := NULL;
  IF v_part = 0 THEN
    SELECT c.mode INTO v_mode FROM {schema}.contender c WHERE c.name = p_name AND c.part > 0
      ORDER BY c.part DESC, c.token DESC, c.place DESC, c.ticket DESC LIMIT 1;
  ELSE
    SELECT c.mode INTO v_mode FROM {schema}.contender c WHERE c.name = p_name AND c.part = 0
      ORDER BY c.token, c.place, c.ticket LIMIT 1;
  END IF;
  IF v_mode IS NOT NULL THEN
    RETURN QUERY
      SELECT {what_elsewhere}::smallint, NULL::uuid, NULL::uuid, NULL::bigint, NULL::double precision, v_mode,
        NULL::bigint, NULL::bigint, NULL::text, NULL::text, NULL::bytea;
  END IF;
