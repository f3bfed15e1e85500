SELECT s.epoch INTO v_epoch FROM {schema}.session s WHERE s.id = p_session AND s.epoch = p_epoch LOCK IN SHARE MODE;
  IF v_epoch IS NULL THEN
    {stale_or_gone}
  END IF;
