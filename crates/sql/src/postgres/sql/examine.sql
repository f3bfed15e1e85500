-- What an operator should know of the server and of our tables: facts, each with its name in `text` and its value in
-- `ask`. The rights are those of the schema's owner; what they do not show is NULL, or not there.
CREATE OR REPLACE FUNCTION {schema}.examine_v1() RETURNS {answer} STABLE AS $$
#variable_conflict use_column
BEGIN
  what := 0;
  text := 'ok';
  RETURN NEXT;
  RETURN QUERY
    SELECT {what_fact}::smallint, NULL::uuid, NULL::uuid, NULL::bigint, NULL::double precision, NULL::smallint,
      NULL::bigint, NULL::bigint, f.name, f.value, NULL::bytea
    FROM (
      SELECT s.name, current_setting(s.name) AS value
      FROM unnest(ARRAY['server_version', 'server_encoding', 'fsync', 'full_page_writes', 'synchronous_commit',
        'synchronous_standby_names', 'max_connections', 'superuser_reserved_connections']) s (name)
      UNION ALL
      SELECT f.name, f.value FROM {schema}.meta m CROSS JOIN {schema}.state s CROSS JOIN LATERAL (VALUES
        ('schema_version', m.version::text), ('instance', s.instance), ('is_settled', ({is_settled})::text),
        ('wait_ms', s.wait_ms::text), ('timeout_max_ms', s.timeout_max_ms::text)) f (name, value)
      UNION ALL
      SELECT s.name, s.value FROM (VALUES
        ('is_aurora', (to_regproc('pg_catalog.aurora_version') IS NOT NULL)::text),
        ('owner', current_user::text),
        ('sees_others', pg_has_role(current_user, 'pg_read_all_stats', 'USAGE')::text),
        ('clock_us', (extract(epoch FROM clock_timestamp()) * 1000000)::bigint::text),
        ('listening', (SELECT count(*) FROM {schema}.session s WHERE s.listening)::text),
        ('connections', (SELECT sum(d.numbackends) FROM pg_stat_database d)::text)) s (name, value)
      UNION ALL
      -- Those that follow the log itself; a subscription to changes is none that could be promoted.
      SELECT s.name, s.value FROM
        (SELECT count(*) AS all_of_them, count(*) FILTER (WHERE r.sync_state IN ('sync', 'quorum')) AS in_step
         FROM pg_stat_replication r WHERE coalesce(r.state, 'streaming') IN ('streaming', 'catchup')
           AND NOT EXISTS
             (SELECT FROM pg_replication_slots l WHERE l.active_pid = r.pid AND l.slot_type = 'logical')) c
        CROSS JOIN LATERAL (VALUES
          ('standbys', c.all_of_them::text), ('standbys_in_step', c.in_step::text)) s (name, value)
      UNION ALL
      -- The oldest transactions, of those that have locked a table of ours and of the others.
      (SELECT DISTINCT ON (a.is_on_ours) CASE WHEN a.is_on_ours THEN 'oldest_on_ours' ELSE 'oldest' END,
         concat_ws(' ', extract(epoch FROM clock_timestamp() - a.xact_start)::bigint, a.pid, a.application_name)
       FROM
         (SELECT a.pid, a.xact_start, a.application_name,
            EXISTS (SELECT FROM pg_locks l JOIN pg_class c ON c.oid = l.relation
              WHERE l.pid = a.pid AND l.database = a.datid AND c.relnamespace = '{schema}'::regnamespace) AS is_on_ours
          FROM pg_stat_activity a
          WHERE a.datname = current_database() AND a.pid <> pg_backend_pid() AND a.backend_type = 'client backend'
            AND a.xact_start IS NOT NULL) a
       ORDER BY a.is_on_ours, a.xact_start)
      UNION ALL
      SELECT 'prepared_s', max(extract(epoch FROM clock_timestamp() - p.prepared))::bigint::text
      FROM pg_prepared_xacts p WHERE p.database = current_database()
      UNION ALL
      SELECT 'dead_' || t.relname, t.n_dead_tup::text FROM pg_stat_all_tables t
      WHERE t.relid IN ('{schema}.queue'::regclass, '{schema}.session'::regclass, '{schema}.contender'::regclass)
    ) f;
END $$;
