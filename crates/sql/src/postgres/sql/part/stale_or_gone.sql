text := 'gone';
    IF EXISTS (SELECT FROM {schema}.session s WHERE s.id = p_session) THEN
      text := 'stale';
    END IF;
    RETURN NEXT;
    RETURN;
