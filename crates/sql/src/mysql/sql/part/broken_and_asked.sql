SELECT {what_broken} AS what, b.ticket FROM {schema}.broken b WHERE b.session = p_session;
  SELECT {what_asked} AS what, c.ticket, c.ask FROM {schema}.contender c
    WHERE c.session = p_session AND c.ask IS NOT NULL;
  SELECT {what_asked} AS what, c.ticket, c.ask FROM {each} STRAIGHT_JOIN {schema}.contender c ON c.ticket = {nth}
    WHERE c.session IS NULL AND c.ask IS NOT NULL;
