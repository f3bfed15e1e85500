-- Else an answered row could be gone after a crash, or after a failover to a synchronous standby.
  IF current_setting('synchronous_commit') IN ('off', 'local') THEN
    PERFORM set_config('synchronous_commit', 'on', true);
  END IF;
