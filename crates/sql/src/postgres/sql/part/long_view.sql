-- Beyond them, the first of the queue, and of each mode so many that two are shown. Only modes that may stand there
      -- are looked for: such a search may read the whole queue.
      SELECT c.token, c.place, c.ticket INTO v_edge_token, v_edge_place, v_edge_ticket
        FROM {schema}.contender c
        WHERE c.name = p_name AND c.part = v_part AND c.token >= v_head
          AND (c.token, c.place, c.ticket) <= (v_token, v_place, v_ticket)
        ORDER BY c.token DESC, c.place DESC, c.ticket DESC OFFSET {nearest} - 1 LIMIT 1;
      SELECT coalesce(bit_or(1 << near.mode), 0) INTO v_near FROM (
        SELECT nearest.mode FROM (
          SELECT c.mode FROM {schema}.contender c
          WHERE c.name = p_name AND c.part = v_part AND c.token >= v_head
            AND (c.token, c.place, c.ticket) < (v_token, v_place, v_ticket)
            AND (c.token, c.place, c.ticket) >= (v_edge_token, v_edge_place, v_edge_ticket)) nearest
        GROUP BY nearest.mode HAVING count(*) >= 2) near;
      RETURN QUERY
        SELECT {what_contender}::smallint, b.ticket, NULL::uuid, b.token, b.place, b.mode,
          NULL::bigint, NULL::bigint, NULL::text, NULL::text, NULL::bytea
        FROM (
          (SELECT c.ticket, c.token, c.place, c.mode FROM {schema}.contender c
           WHERE c.name = p_name AND c.part = v_part AND c.token >= v_head
             AND (c.token, c.place, c.ticket) < (v_edge_token, v_edge_place, v_edge_ticket)
           ORDER BY c.token, c.place, c.ticket LIMIT 1)
          UNION
          SELECT n.ticket, n.token, n.place, n.mode FROM generate_series(0, 7) m CROSS JOIN LATERAL (
            SELECT c.ticket, c.token, c.place, c.mode FROM {schema}.contender c
            WHERE c.name = p_name AND c.part = v_part AND c.token >= v_head AND c.mode = m
              AND (c.token, c.place, c.ticket) < (v_edge_token, v_edge_place, v_edge_ticket)
            ORDER BY c.token DESC, c.place DESC, c.ticket DESC LIMIT 2) n
          WHERE v_modes & ~v_near & (1 << m) <> 0) b;
      GET DIAGNOSTICS v_shown = ROW_COUNT;
      SELECT count(*) - v_shown INTO v_omitted FROM (
        SELECT FROM {schema}.contender c WHERE c.name = p_name AND c.part = v_part AND c.token >= v_head
          AND (c.token, c.place, c.ticket) < (v_edge_token, v_edge_place, v_edge_ticket) LIMIT {counted}) ahead;
      IF v_omitted > 0 THEN
        RETURN QUERY
          SELECT {what_omitted}::smallint, NULL::uuid, NULL::uuid, v_omitted, NULL::double precision, NULL::smallint,
            NULL::bigint, NULL::bigint, NULL::text, NULL::text, NULL::bytea;
      END IF;
