what := 0;
  PERFORM FROM {schema}.session s WHERE s.id = p_session AND s.epoch = p_epoch FOR SHARE;
  IF NOT FOUND THEN
    {stale_or_gone}
  END IF;
