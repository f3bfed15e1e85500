-- What an operator should know of the server and of our tables: facts, each with its name in `text` and its value in
-- `ask`. The rights are those of the one who made the schema; what they do not show is told as `hidden_from`.
{procedure} {schema}.examine_v1()
{settings}
BEGIN
  {ok}
  SELECT {what_fact} AS what, 'schema_version' AS text, m.version AS ask FROM {schema}.meta m;
  SELECT {what_fact} AS what, 'instance' AS text, CONVERT(s.instance USING utf8mb4) AS ask FROM {schema}.state s;
  SELECT {what_fact} AS what, 'is_settled' AS text, IF({is_settled}, 'true', 'false') AS ask;
  SELECT {what_fact} AS what, 'wait_ms' AS text, s.wait_ms AS ask FROM {schema}.state s;
  SELECT {what_fact} AS what, 'timeout_max_ms' AS text, s.timeout_max_ms AS ask FROM {schema}.state s;
  SELECT {what_fact} AS what, 'clock_us' AS text,
    TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AS ask;
  IF VERSION() LIKE '%MariaDB%' THEN
    SELECT {what_fact} AS what, LOWER(v.VARIABLE_NAME) AS text, v.VARIABLE_VALUE AS ask
      FROM information_schema.GLOBAL_VARIABLES v WHERE v.VARIABLE_NAME IN ({variables});
    SELECT {what_fact} AS what, LOWER(s.VARIABLE_NAME) AS text, s.VARIABLE_VALUE AS ask
      FROM information_schema.GLOBAL_STATUS s WHERE s.VARIABLE_NAME IN ({counters});
  ELSE
    SELECT {what_fact} AS what, LOWER(v.VARIABLE_NAME) AS text, v.VARIABLE_VALUE AS ask
      FROM performance_schema.global_variables v WHERE v.VARIABLE_NAME IN ({variables});
    SELECT {what_fact} AS what, LOWER(s.VARIABLE_NAME) AS text, s.VARIABLE_VALUE AS ask
      FROM performance_schema.global_status s WHERE s.VARIABLE_NAME IN ({counters});
  END IF;
  BEGIN
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
      SELECT {what_fact} AS what, 'hidden_from' AS text, CURRENT_USER() AS ask;
    SELECT {what_fact} AS what, 'oldest' AS text,
      CONCAT(TIMESTAMPDIFF(SECOND, t.trx_started, SYSDATE()), ' ', t.trx_mysql_thread_id) AS ask
      FROM information_schema.INNODB_TRX t WHERE t.trx_mysql_thread_id <> CONNECTION_ID()
      ORDER BY t.trx_started LIMIT 1;
    SELECT {what_fact} AS what, 'history' AS text, m.COUNT AS ask
      FROM information_schema.INNODB_METRICS m WHERE m.NAME = 'trx_rseg_history_len';
  END;
END
//
