SELECT 0 AS what, IF(EXISTS (SELECT 1 FROM {schema}.session s WHERE s.id = p_session), 'stale', 'gone') AS text;
    ROLLBACK;
    LEAVE answer;
