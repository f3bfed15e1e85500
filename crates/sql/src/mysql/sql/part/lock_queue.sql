SELECT q.last, q.modes INTO v_last, v_modes FROM {schema}.queue q WHERE q.name = p_name AND q.part = p_part FOR UPDATE;
  IF v_last IS NULL THEN
    INSERT INTO {schema}.queue (name, part, last) VALUES (p_name, p_part, 0) ON DUPLICATE KEY UPDATE part = p_part;
    SELECT q.last, q.modes INTO v_last, v_modes FROM {schema}.queue q
      WHERE q.name = p_name AND q.part = p_part FOR UPDATE;
    -- By a statement that sees the floor which a removal of this row raised while this one waited.
    SELECT GREATEST(v_last, m.floor) INTO v_last FROM {schema}.meta m;
  END IF;
