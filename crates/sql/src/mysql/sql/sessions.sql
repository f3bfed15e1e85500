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
-- Which instance is settled. Another one than the last is not, until a client that has waited says so.
{procedure} {schema}.hello_v1(p_instance varbinary(500))
{settings}
BEGIN
  {begin}
  IF NOT (SELECT m.instance FROM {schema}.meta m) <=> p_instance THEN
    -- From the left to the right: the instance of before decides.
    UPDATE {schema}.meta m SET m.is_settled = m.is_settled AND m.instance IS NULL, m.instance = p_instance
      WHERE NOT m.instance <=> p_instance;
  END IF;
  SELECT 0 AS what, IF(m.is_settled, 'ok', 'unsettled') AS text, m.version AS number, m.timeout_max_ms AS timeout_ms
    FROM {schema}.meta m;
  COMMIT;
END
//
-- Says that every session of the former instance has stopped believing in its locks.
{procedure} {schema}.settle_v1(p_instance varbinary(500))
{settings}
BEGIN
  {begin}
  UPDATE {schema}.meta m SET m.is_settled = TRUE WHERE m.instance = p_instance AND NOT m.is_settled;
  SELECT 0 AS what, IF(m.instance <=> p_instance, 'ok', 'unsettled') AS text, m.timeout_max_ms AS timeout_ms
    FROM {schema}.meta m;
  COMMIT;
END
//
{procedure} {schema}.open_v1(
  p_session binary(16), p_timeout_ms bigint, p_owner text CHARACTER SET utf8mb4, p_sweeps boolean)
{settings}
BEGIN
  {begin}
  IF (SELECT m.timeout_max_ms FROM {schema}.meta m) < p_timeout_ms THEN
    UPDATE {schema}.meta m SET m.timeout_max_ms = p_timeout_ms WHERE m.timeout_max_ms < p_timeout_ms;
  END IF;
  INSERT INTO {schema}.session (id, epoch, beat, timeout_ms, owner) VALUES (p_session, 1, 1, p_timeout_ms, p_owner)
    ON DUPLICATE KEY UPDATE id = p_session;
  IF p_sweeps THEN
    CALL {schema}.sweep_v1();
  END IF;
  SELECT 0 AS what, IF(m.is_settled, 'ok', 'unsettled') AS text, m.version AS number, m.timeout_max_ms AS timeout_ms
    FROM {schema}.meta m;
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
