EXISTS (SELECT FROM {schema}.start t WHERE t.started = s.started)
