IF NOT p_whole THEN
    SELECT c.token, c.place, c.ticket, c.mode INTO v_token, v_place, v_ticket, v_mode FROM {schema}.contender c
      WHERE c.ticket = p_around AND c.name = p_name AND c.part = p_part;
    SET v_has_behind = v_token IS NOT NULL;
    IF v_token IS NULL THEN
      SET v_token = 9223372036854775807, v_place = 0, v_ticket = REPEAT(x'ff', 16);
    END IF;
  END IF;
  SELECT q.modes INTO v_modes FROM {schema}.queue q WHERE q.name = p_name AND q.part = p_part;
  -- There are contenders all the same if an operator removed the row.
  SET v_modes = COALESCE(v_modes, 255);
  {view}
