-- Who lives: sessions beat, and look after one another.

-- Renews a session, and looks after what it holds and waits for. Its status names the state of the data in `ask`, empty
-- if that is not settled, and has the greatest timeout of sessions.
{procedure} {schema}.beat_v1(
  p_session binary(16), p_epoch bigint, p_beat bigint, p_roll mediumblob, p_awaited mediumblob, p_ring bigint)
{settings}
answer: BEGIN
  DECLARE v_tickets mediumblob DEFAULT CONCAT(p_roll, p_awaited);
  DECLARE v_count bigint DEFAULT (LENGTH(p_roll) + LENGTH(p_awaited)) DIV 16;
  DECLARE v_state varchar(36) CHARACTER SET utf8mb4 DEFAULT '';
  DECLARE v_timeout_max_ms bigint;
  {begin}
  UPDATE {schema}.session s SET s.beat = p_beat WHERE s.id = p_session AND s.epoch = p_epoch AND s.beat < p_beat;
  IF ROW_COUNT() = 0 THEN
    {stale_or_gone}
  END IF;
  SELECT CONVERT(s.id USING utf8mb4), s.timeout_max_ms INTO v_state, v_timeout_max_ms
    FROM {schema}.state s WHERE {is_settled_row};
  SELECT 0 AS what, 'ok' AS text, CONNECTION_ID() AS number, 0 AS epoch, v_timeout_max_ms AS timeout_ms, v_state AS ask;
  -- That one who is waited for is gone is told only where it can be a turn.
  IF v_state = '' THEN
    SET v_tickets = p_roll, v_count = LENGTH(p_roll) DIV 16;
  END IF;
  IF v_count > 0 THEN
    {missing}
  END IF;
  {broken_and_asked}
  IF LENGTH(p_awaited) > 0 THEN
    SET v_tickets = p_awaited, v_count = LENGTH(p_awaited) DIV 16;
    SELECT {what_owner} AS what, c.ticket, c.session FROM {each} STRAIGHT_JOIN {schema}.contender c
      ON c.ticket = {nth};
  ELSE
    SET v_tickets = '', v_count = 0;
  END IF;
  SELECT {what_beat} AS what, s.id AS session, s.beat AS number, s.epoch, s.timeout_ms FROM (
      SELECT c.session AS id FROM {each} STRAIGHT_JOIN {schema}.contender c ON c.ticket = {nth}
        WHERE c.session <> p_session
      UNION
      SELECT ring.id FROM (
        (SELECT n.id, 0 AS lap FROM {schema}.session n WHERE n.id > p_session ORDER BY n.id LIMIT p_ring)
        UNION ALL
        (SELECT n.id, 1 AS lap FROM {schema}.session n WHERE n.id < p_session ORDER BY n.id LIMIT p_ring)
        ORDER BY lap, id LIMIT p_ring) ring) observed
    JOIN {schema}.session s ON s.id = observed.id;
  COMMIT;
END
//
-- Removes a session that was seen with this epoch and beat for longer than it may be silent.
{procedure} {schema}.reap_v1(p_session binary(16), p_epoch bigint, p_beat bigint)
{settings}
answer: BEGIN
  DECLARE v_epoch bigint;
  DECLARE v_free bigint;
  {begin}
  IF NOT {is_settled} THEN
    SELECT 0 AS what, 'busy' AS text;
    ROLLBACK;
    LEAVE answer;
  END IF;
  SELECT s.epoch INTO v_epoch FROM {schema}.session s
    WHERE s.id = p_session AND s.epoch = p_epoch AND s.beat = p_beat FOR UPDATE SKIP LOCKED;
  IF v_epoch IS NULL THEN
    SELECT 0 AS what, IF(EXISTS (SELECT 1 FROM {schema}.session s
      WHERE s.id = p_session AND s.epoch = p_epoch AND s.beat = p_beat), 'busy', 'alive') AS text;
    ROLLBACK;
    LEAVE answer;
  END IF;
  CALL {schema}.lock_queues_v1(p_session, '');
  SELECT COUNT(c.pin) INTO v_free FROM {schema}.contender c WHERE c.session = p_session FOR UPDATE SKIP LOCKED;
  IF v_free < (SELECT COUNT(*) FROM {schema}.contender c WHERE c.session = p_session) THEN
    SELECT 0 AS what, 'pinned' AS text;
    ROLLBACK;
    LEAVE answer;
  END IF;
  DELETE FROM {schema}.contender WHERE session = p_session;
  {session_ends}
  COMMIT;
  SELECT 0 AS what, 'removed' AS text;
END
//
