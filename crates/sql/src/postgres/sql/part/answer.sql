TABLE (
  what smallint, ticket uuid, session uuid, number bigint, place double precision, mode smallint,
  epoch bigint, timeout_ms bigint, text text, ask text, bytes bytea)
LANGUAGE plpgsql SECURITY DEFINER {settings}
