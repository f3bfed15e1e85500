DELETE FROM {schema}.watch WHERE session = p_session;
    DELETE FROM {schema}.broken WHERE session = p_session;
    DELETE FROM {schema}.session WHERE id = p_session;
    IF EXISTS (SELECT 1 FROM {schema}.contender c WHERE c.session = p_session)
      OR EXISTS (SELECT 1 FROM {schema}.watch w WHERE w.session = p_session)
      OR EXISTS (SELECT 1 FROM {schema}.broken b WHERE b.session = p_session)
      OR EXISTS (SELECT 1 FROM {schema}.session s WHERE s.id = p_session)
    THEN
      {interrupted}
    END IF;
