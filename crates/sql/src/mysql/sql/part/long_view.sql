-- Beyond them, the first of the queue, and of each mode so many that two are shown. Only modes that may stand there
      -- are looked for: such a search may read the whole queue.
      SELECT c.token, c.place, c.ticket INTO v_edge_token, v_edge_place, v_edge_ticket FROM {schema}.contender c
        WHERE {ahead}
        ORDER BY c.token DESC, c.place DESC, c.ticket DESC LIMIT 1 OFFSET {nearest_but_one};
      SELECT COALESCE(BIT_OR(1 << near.mode), 0) INTO v_near FROM (
        SELECT nearest.mode FROM (
          SELECT c.mode, c.ticket FROM {schema}.contender c WHERE {ahead}
          ORDER BY c.token DESC, c.place DESC, c.ticket DESC LIMIT {nearest}) nearest
        WHERE nearest.ticket <> v_ticket GROUP BY nearest.mode HAVING COUNT(*) >= 2) near;
      SELECT c.ticket INTO v_first FROM {schema}.contender c WHERE {beyond}
        ORDER BY c.token, c.place, c.ticket LIMIT 1;
      SELECT {what_contender} AS what, c.ticket, c.token AS number, c.place, c.mode FROM {schema}.contender c
        WHERE c.ticket = v_first;
      SET v_shown = FOUND_ROWS();
      WHILE v_kind < 8 DO
        IF v_modes & ~v_near & (1 << v_kind) THEN
          SELECT {what_contender} AS what, c.ticket, c.token AS number, c.place, c.mode FROM {schema}.contender c
            WHERE {beyond} AND c.mode = v_kind AND c.ticket <> v_first
            ORDER BY c.token DESC, c.place DESC, c.ticket DESC LIMIT 2;
          SET v_shown = v_shown + FOUND_ROWS();
        END IF;
        SET v_kind = v_kind + 1;
      END WHILE;
      SELECT COUNT(*) INTO v_ahead FROM (SELECT 1 FROM {schema}.contender c WHERE {beyond} LIMIT {counted}) counted;
      IF v_ahead > v_shown THEN
        SELECT {what_omitted} AS what, v_ahead - v_shown AS number;
      END IF;
