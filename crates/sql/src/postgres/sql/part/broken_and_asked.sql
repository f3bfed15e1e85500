RETURN QUERY
    SELECT {what_broken}::smallint, b.ticket, NULL::uuid, NULL::bigint, NULL::double precision, NULL::smallint,
      NULL::bigint, NULL::bigint, NULL::text, NULL::text, NULL::bytea
    FROM {schema}.broken b WHERE b.session = p_session;
  RETURN QUERY
    SELECT {what_asked}::smallint, c.ticket, NULL::uuid, NULL::bigint, NULL::double precision, NULL::smallint,
      NULL::bigint, NULL::bigint, NULL::text, c.ask, NULL::bytea
    FROM {schema}.contender c
    WHERE c.ask IS NOT NULL AND (c.session = p_session OR c.session IS NULL AND c.ticket = ANY (p_tickets));
