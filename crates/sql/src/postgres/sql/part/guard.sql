-- What stands on reading what was committed while a lock was waited for would grant twice.
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    RAISE EXCEPTION 'locks need transactions that are READ COMMITTED' USING ERRCODE = 'LK001';
  END IF;
  -- Else an answered row could be gone after a crash, or after a failover to a synchronous standby.
  IF current_setting('synchronous_commit') IN ('off', 'local') THEN
    PERFORM set_config('synchronous_commit', 'on', true);
  END IF;
