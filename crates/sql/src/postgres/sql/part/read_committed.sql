-- What stands on reading what was committed while a lock was waited for would grant twice.
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    RAISE EXCEPTION 'locks need transactions that are READ COMMITTED' USING ERRCODE = 'LK001';
  END IF;
