-- Sessions: they are opened, go on over a new connection, and are closed; and which state of the data is served.
--
-- A procedure's rows are read to their end by the client: an error that comes behind them takes them back.
--
-- In MariaDB a deletion that an operator interrupts (KILL QUERY) can delete nothing, or a part, and raise no error: the
-- procedure goes on behind it (seen on 10.11). So what must be gone, or changed, is looked for behind it; else the
-- procedure fails as it should have.

-- The version of the tables. Its name and its answer stay as they are in all versions.
{procedure} {schema}.schema_version()
{settings}
SELECT m.version FROM {schema}.meta m
//
-- A table of before lacks this column, and only MariaDB can add one that may be there already. It is added behind the
-- procedure by which a database is known to be ours, and before what uses it.
{procedure} {schema}.add_joined()
{settings}
IF NOT EXISTS (SELECT 1 FROM information_schema.columns c
  WHERE c.table_schema = '{schema}' AND c.table_name = 'queue' AND c.column_name = 'joined')
THEN
  ALTER TABLE {schema}.queue ADD COLUMN joined bigint NOT NULL DEFAULT 0;
END IF
//
CALL {schema}.add_joined()
//
DROP PROCEDURE {schema}.add_joined
//
-- Which state of the data this is, and for how long it is to be waited for if it is not settled. Another start of the
-- server, or another server, begins another state. If the server flushes what it acknowledges, another start of the same
-- seems to have lost nothing: then former clients have a short time to say that it has (`doubt`). Without an instance it
-- only answers.
{procedure} {schema}.greet_v1(p_instance varbinary(500))
{settings}
BEGIN
  DECLARE v_run varbinary(17) DEFAULT {run};
  DECLARE v_id varbinary(36) DEFAULT UUID();
  DECLARE v_flushes boolean DEFAULT
    @@global.innodb_flush_log_at_trx_commit = 1 AND (NOT @@global.log_bin OR @@global.sync_binlog = 1);
  {begin}
  -- From the left to the right: what stands there decides.
  UPDATE {schema}.state s SET
      s.wait_ms = CASE
        WHEN NOT v_flushes OR SUBSTRING_INDEX(s.instance, '@', 1) <> SUBSTRING_INDEX(p_instance, '@', 1)
          THEN s.timeout_max_ms
        WHEN s.is_settled THEN LEAST({brief_ms}, s.timeout_max_ms)
        ELSE s.wait_ms END,
      s.is_settled = s.instance IS NULL,
      s.instance = p_instance, s.run = v_run, s.id = v_id
    WHERE p_instance IS NOT NULL AND NOT (s.instance <=> p_instance AND s.run <=> v_run);
  SELECT 0 AS what,
      IF(s.is_settled AND s.instance = COALESCE(p_instance, s.instance) AND s.run = v_run, 'ok', 'unsettled') AS text,
      m.version AS number, s.wait_ms AS timeout_ms, CONVERT(s.id USING utf8mb4) AS ask
    FROM {schema}.state s JOIN {schema}.meta m;
  COMMIT;
END
//
DROP PROCEDURE IF EXISTS {schema}.hello_v1
//
-- Says that every session of the former state has stopped believing in its locks.
{procedure} {schema}.settle_v1(p_state varbinary(36))
{settings}
BEGIN
  {begin}
  UPDATE {schema}.state s SET s.is_settled = TRUE WHERE s.id = p_state AND NOT s.is_settled;
  SELECT 0 AS what, IF(s.id = p_state AND s.is_settled, 'ok', 'unsettled') AS text FROM {schema}.state s;
  COMMIT;
END
//
-- Says that the data lack what was acknowledged to a session that is still believed: so they lost other grants too.
{procedure} {schema}.doubt_v1(p_state varbinary(36))
{settings}
BEGIN
  DECLARE v_id varbinary(36) DEFAULT UUID();
  {begin}
  UPDATE {schema}.state s SET s.id = v_id, s.wait_ms = s.timeout_max_ms
    WHERE s.id = p_state AND NOT s.is_settled AND s.wait_ms < s.timeout_max_ms;
  {ok}
  COMMIT;
END
//
-- Changes the greatest timeout of sessions, or begins a state that is not settled since the data were restored; both
-- are NULL or false if not asked for. A greater timeout begins such a state too: then a replica that lags behind by less
-- than the wait lacks no grant to a session with that timeout.
{procedure} {schema}.limit_v1(p_timeout_ms bigint, p_is_restored boolean)
{settings}
answer: BEGIN
  DECLARE v_id varbinary(36) DEFAULT UUID();
  DECLARE v_timeout_max_ms bigint;
  DECLARE v_longest_ms bigint;
  {begin}
  SELECT s.timeout_max_ms INTO v_timeout_max_ms FROM {schema}.state s FOR UPDATE;
  SELECT MAX(s.timeout_ms) INTO v_longest_ms FROM {schema}.session s;
  IF p_timeout_ms < v_longest_ms THEN
    SELECT 0 AS what, 'long' AS text, v_longest_ms AS timeout_ms;
    ROLLBACK;
    LEAVE answer;
  END IF;
  UPDATE {schema}.state s SET s.timeout_max_ms = COALESCE(p_timeout_ms, s.timeout_max_ms);
  UPDATE {schema}.state s SET s.id = v_id, s.is_settled = FALSE, s.wait_ms = s.timeout_max_ms
    WHERE p_is_restored OR s.instance IS NOT NULL AND p_timeout_ms > v_timeout_max_ms;
  {ok}
  COMMIT;
END
//
{procedure} {schema}.open_v1(
  p_session binary(16), p_timeout_ms bigint, p_owner text CHARACTER SET utf8mb4, p_sweeps boolean)
{settings}
answer: BEGIN
  DECLARE v_timeout_max_ms bigint;
  {begin}
  SELECT s.timeout_max_ms INTO v_timeout_max_ms FROM {schema}.state s LOCK IN SHARE MODE;
  IF p_timeout_ms > v_timeout_max_ms THEN
    SELECT 0 AS what, 'long' AS text, v_timeout_max_ms AS timeout_ms;
    ROLLBACK;
    LEAVE answer;
  END IF;
  INSERT INTO {schema}.session (id, epoch, beat, timeout_ms, owner) VALUES (p_session, 1, 1, p_timeout_ms, p_owner)
    ON DUPLICATE KEY UPDATE id = p_session;
  IF p_sweeps THEN
    CALL {schema}.sweep_v1();
  END IF;
  SELECT 0 AS what, IF(s.is_settled, 'ok', 'unsettled') AS text FROM {schema}.state s;
  COMMIT;
END
//
-- Removes queues that nothing has happened in for a day, by what their last number says of the time: at most 200. No
-- queue gives out numbers below theirs later. Its caller has begun the transaction.
{procedure} {schema}.sweep_v1()
{settings}
BEGIN
  DECLARE v_idle bigint DEFAULT {now} - (86400000 << 20);
  DECLARE v_name varbinary(200);
  DECLARE v_part tinyint;
  DECLARE v_last bigint;
  DECLARE v_floor bigint DEFAULT 0;
  DECLARE v_is_over boolean DEFAULT FALSE;
  DECLARE idle CURSOR FOR
    SELECT q.name, q.part FROM {schema}.queue q
    WHERE q.last < v_idle
      AND NOT EXISTS (SELECT 1 FROM {schema}.contender c WHERE c.name = q.name AND c.part = q.part)
      AND NOT EXISTS (SELECT 1 FROM {schema}.value v WHERE v.name = q.name AND v.part = q.part)
      AND NOT EXISTS (SELECT 1 FROM {schema}.watch w WHERE w.name = q.name AND w.part = q.part)
    LIMIT 200;
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_is_over = TRUE;
  OPEN idle;
  FETCH idle INTO v_name, v_part;
  WHILE NOT v_is_over DO
    SET v_last = NULL;
    -- One that was joined meanwhile has a greater number now.
    SELECT q.last INTO v_last FROM {schema}.queue q
      WHERE q.name = v_name AND q.part = v_part AND q.last < v_idle FOR UPDATE SKIP LOCKED;
    IF v_last IS NOT NULL THEN
      DELETE FROM {schema}.queue WHERE name = v_name AND part = v_part;
      SET v_floor = GREATEST(v_floor, v_last);
    END IF;
    SET v_is_over = FALSE;
    FETCH idle INTO v_name, v_part;
  END WHILE;
  CLOSE idle;
  UPDATE {schema}.meta m SET m.floor = v_floor WHERE m.floor < v_floor;
  DELETE FROM {schema}.broken
    WHERE NOT EXISTS (SELECT 1 FROM {schema}.session s WHERE s.id = {schema}.broken.session);
END
//
-- Locks the queues in which a session has contenders, but for those of the list, in their order. Its caller has begun
-- the transaction.
{procedure} {schema}.lock_queues_v1(p_session binary(16), p_tickets mediumblob)
{settings}
BEGIN
  DECLARE v_tickets mediumblob DEFAULT p_tickets;
  DECLARE v_count bigint DEFAULT LENGTH(p_tickets) DIV 16;
  DECLARE v_name varbinary(200);
  DECLARE v_part tinyint;
  DECLARE v_last bigint;
  DECLARE v_is_over boolean DEFAULT FALSE;
  DECLARE theirs CURSOR FOR
    SELECT DISTINCT c.name, c.part FROM {schema}.contender c
    WHERE c.session = p_session AND c.ticket NOT IN (SELECT {nth} FROM {each})
    ORDER BY c.name, c.part;
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_is_over = TRUE;
  OPEN theirs;
  FETCH theirs INTO v_name, v_part;
  WHILE NOT v_is_over DO
    SELECT q.last INTO v_last FROM {schema}.queue q WHERE q.name = v_name AND q.part = v_part FOR UPDATE;
    SET v_is_over = FALSE;
    FETCH theirs INTO v_name, v_part;
  END WHILE;
  CLOSE theirs;
END
//
-- Over a new connection. It waits for what still runs on the former one, and keeps what comes over it later from having
-- an effect; then it removes the session's contenders that its client does not know, and takes the doors of the others.
{procedure} {schema}.resume_v1(p_session binary(16), p_epoch bigint, p_beat bigint, p_tickets mediumblob)
{settings}
answer: BEGIN
  DECLARE v_tickets mediumblob DEFAULT p_tickets;
  DECLARE v_count bigint DEFAULT LENGTH(p_tickets) DIV 16;
  DECLARE v_doors bigint;
  {begin}
  UPDATE {schema}.session s SET s.epoch = p_epoch, s.beat = p_beat
    WHERE s.id = p_session AND s.epoch < p_epoch AND s.beat < p_beat;
  IF ROW_COUNT() = 0 THEN
    {stale_or_gone}
  END IF;
  CALL {schema}.lock_queues_v1(p_session, p_tickets);
  DELETE FROM {schema}.contender WHERE session = p_session AND ticket NOT IN (SELECT {nth} FROM {each});
  IF EXISTS (SELECT 1 FROM {schema}.contender c
    WHERE c.session = p_session AND c.ticket NOT IN (SELECT {nth} FROM {each}))
  THEN
    {interrupted}
  END IF;
  DELETE FROM {schema}.watch WHERE session = p_session;
  {ok}
  SELECT {what_stands} AS what, c.ticket FROM {each} STRAIGHT_JOIN {schema}.contender c ON c.ticket = {nth}
    WHERE c.session = p_session OR c.session IS NULL;
  {broken_and_asked}
  SELECT COUNT({take_door}) INTO v_doors FROM {each} STRAIGHT_JOIN {schema}.contender c ON c.ticket = {nth}
    WHERE c.session = p_session OR c.session IS NULL;
  COMMIT;
END
//
-- Removes a session, a thousand of its contenders at a time; answers how many are left. Nothing is deleted by another
-- deletion here: that would run past what is done at a removal.
{procedure} {schema}.close_v1(p_session binary(16))
{settings}
BEGIN
  DECLARE v_epoch bigint;
  DECLARE v_left bigint;
  {begin}
  SELECT s.epoch INTO v_epoch FROM {schema}.session s WHERE s.id = p_session FOR UPDATE;
  CALL {schema}.lock_queues_v1(p_session, '');
  DELETE FROM {schema}.contender WHERE session = p_session ORDER BY name, part LIMIT 1000;
  SELECT COUNT(*) INTO v_left FROM {schema}.contender c WHERE c.session = p_session;
  IF v_left = 0 THEN
    {session_ends}
  END IF;
  COMMIT;
  SELECT 0 AS what, 'ok' AS text, v_left AS number;
  IF v_left = 0 THEN
    DO RELEASE_ALL_LOCKS();
  END IF;
END
//
-- No session is told by the server here.
{procedure} {schema}.listen_v1(p_session binary(16), p_wants boolean, p_most bigint)
{settings}
SELECT 0 AS what, IF(p_wants, 'full', 'ok') AS text
//
