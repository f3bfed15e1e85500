IF NOT p_whole THEN
    SELECT c.token, c.place, c.ticket, c.mode INTO v_token, v_place, v_ticket, v_mode
      FROM {schema}.contender c WHERE c.ticket = p_around AND c.name = p_name AND c.part = v_part;
    v_has_behind := FOUND;
    IF NOT FOUND THEN
      v_token := 9223372036854775807;
      v_place := 'Infinity';
      v_ticket := 'ffffffff-ffff-ffff-ffff-ffffffffffff';
    END IF;
  END IF;
  SELECT q.modes, q.head INTO v_modes, v_head FROM {schema}.queue q WHERE q.name = p_name AND q.part = v_part;
  IF NOT FOUND THEN
    -- There are contenders all the same if an operator removed the row.
    v_modes := 255;
    v_head := 0;
  END IF;
  {view}
