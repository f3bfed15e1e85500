-- Places in queues: they are taken, given up and looked at.

-- Takes places at the tail, one for each ticket, all or none; or right behind an anchor, with its token. It takes none
-- if one of them is there: then it was sent before, and its answer was lost.
{procedure} {schema}.join_v1(
  p_session binary(16), p_epoch bigint, p_name varbinary(200), p_part tinyint, p_tickets mediumblob,
  p_modes mediumblob, p_kept boolean, p_anchor binary(16), p_records longblob, p_whole boolean)
{settings}
answer: BEGIN
  DECLARE v_tickets mediumblob DEFAULT p_tickets;
  DECLARE v_count bigint DEFAULT LENGTH(p_tickets) DIV 16;
  DECLARE v_at bigint DEFAULT 0;
  DECLARE v_asked int DEFAULT 0;
  DECLARE v_epoch bigint;
  DECLARE v_is_settled boolean;
  DECLARE v_is_resent boolean DEFAULT FALSE;
  DECLARE v_is_numbered boolean DEFAULT FALSE;
  DECLARE v_is_alone boolean DEFAULT FALSE;
  DECLARE v_last bigint;
  DECLARE v_step double DEFAULT 0;
  DECLARE v_next double;
  DECLARE v_from bigint DEFAULT 1;
  DECLARE v_to bigint;
  DECLARE v_door varchar(40) CHARACTER SET ascii;
  DECLARE v_doors bigint;
  {view_variables}
  {begin}
  -- The lock waits for no other join, and is waited for by all that raises the epoch or removes the session.
  SELECT s.epoch, {is_settled}, EXISTS (SELECT 1 FROM {schema}.contender c WHERE c.ticket = p_tickets)
    INTO v_epoch, v_is_settled, v_is_resent
    FROM {schema}.session s WHERE s.id = p_session AND s.epoch = p_epoch LOCK IN SHARE MODE;
  IF v_epoch IS NULL OR NOT v_is_settled THEN
    {settled}
    {stale_or_gone}
  END IF;
  IF v_count = 1 THEN
    SET v_asked = 1 << ASCII(p_modes);
  ELSE
    SET v_is_resent = EXISTS
      (SELECT 1 FROM {each} STRAIGHT_JOIN {schema}.contender c ON c.ticket = {nth});
    WHILE v_at < v_count DO
      SET v_at = v_at + 1, v_asked = v_asked | (1 << ASCII(SUBSTRING(p_modes, v_at, 1)));
    END WHILE;
  END IF;

  -- The row is locked before the number is taken, so that one who sees a contender sees all ahead of it. Most joins
  -- change no more of it than its numbers: one statement does both.
  IF v_count = 1 AND p_anchor IS NULL AND NOT v_is_resent THEN
    UPDATE {schema}.queue q SET q.joined = {joined} + 1, q.last = LAST_INSERT_ID(GREATEST(q.last, {now}) + 1)
      WHERE q.name = p_name AND q.part = p_part AND q.modes = v_asked;
    SET v_is_numbered = ROW_COUNT() = 1;
  END IF;
  IF v_is_numbered THEN
    SET v_last = LAST_INSERT_ID(), v_modes = v_asked;
  ELSE
    {lock_queue}
  END IF;
  IF v_is_resent THEN
    {ok}
    SELECT {what_stored} AS what, c.ticket, c.token AS number, c.place FROM {each} STRAIGHT_JOIN {schema}.contender c
      ON c.ticket = {nth} ORDER BY hundreds.n, ones.n;
    SELECT c.token, c.place, c.ticket, c.mode INTO v_token, v_place, v_ticket, v_mode
      FROM {each} STRAIGHT_JOIN {schema}.contender c ON c.ticket = {nth} ORDER BY c.token, c.place, c.ticket LIMIT 1;
  ELSE
    IF p_anchor IS NULL THEN
      IF NOT v_is_numbered THEN
        SET v_last = GREATEST(v_last, {now}) + v_count;
      END IF;
      IF v_last >= {last_max} THEN
        SELECT 0 AS what, 'full' AS text;
        ROLLBACK;
        LEAVE answer;
      END IF;
      IF NOT v_is_numbered THEN
        IF v_modes <> v_asked THEN
          SET v_modes = v_asked | IF(EXISTS
            (SELECT 1 FROM {schema}.contender c WHERE c.name = p_name AND c.part = p_part), v_modes, 0);
        END IF;
        UPDATE {schema}.queue q SET q.joined = {joined} + v_count, q.last = v_last, q.modes = v_modes
          WHERE q.name = p_name AND q.part = p_part;
        IF ROW_COUNT() = 0 THEN
          {interrupted}
        END IF;
      END IF;
      SET v_token = v_last - v_count + 1, v_place = 0;
    ELSE
      SELECT c.token, c.place INTO v_token, v_place FROM {schema}.contender c
        WHERE c.ticket = p_anchor AND c.name = p_name AND c.part = p_part AND c.session = p_session;
      IF v_token IS NULL THEN
        SELECT 0 AS what, 'anchor' AS text;
        ROLLBACK;
        LEAVE answer;
      END IF;
      SELECT MIN(c.place) INTO v_next FROM {schema}.contender c
        WHERE c.name = p_name AND c.part = p_part AND c.token = v_token AND c.place > v_place;
      SET v_step = COALESCE((v_next - v_place) / (v_count + 1), 1);
      -- Where the numbers between two are used up, or too small to be divided.
      IF v_next - v_place < 1e-290 OR v_place + v_step <= v_place OR v_place + v_step * v_count >= v_next THEN
        SELECT 0 AS what, 'full' AS text;
        ROLLBACK;
        LEAVE answer;
      END IF;
      SET v_modes = v_modes | v_asked;
      UPDATE {schema}.queue q SET
          q.joined = {joined} + v_count, q.last = GREATEST(q.last, {now}), q.modes = v_modes
        WHERE q.name = p_name AND q.part = p_part;
      IF ROW_COUNT() = 0 THEN
        {interrupted}
      END IF;
      SET v_place = v_place + v_step;
    END IF;
    IF v_count = 1 THEN
      INSERT INTO {schema}.contender (ticket, name, part, token, place, mode, session, record) VALUES
        (p_tickets, p_name, p_part, v_token, v_place, ASCII(p_modes), IF(p_kept, NULL, p_session),
         CONVERT(p_records USING utf8mb4));
      -- Most find no other contender of the lock, and are shown themselves by the same statement. The others have come
      -- by now whose numbers are lower: the row's lock was waited for.
      SET v_is_alone = NOT EXISTS (SELECT 1 FROM {schema}.contender c WHERE c.name = p_name AND c.ticket <> p_tickets);
      SELECT 0 AS what, 'ok' AS text, NULL AS ticket, NULL AS number, NULL AS place, NULL AS mode
        UNION ALL SELECT {what_stored}, NULL, p_tickets, v_token, v_place, NULL
        UNION ALL SELECT {what_contender}, NULL, p_tickets, v_token, v_place, ASCII(p_modes) FROM DUAL WHERE v_is_alone;
    ELSE
      SET v_at = 0, v_to = LOCATE(x'0a', p_records);
      WHILE v_at < v_count DO
        INSERT INTO {schema}.contender (ticket, name, part, token, place, mode, session, record) VALUES
          (SUBSTRING(p_tickets, v_at * 16 + 1, 16), p_name, p_part, IF(p_anchor IS NULL, v_token + v_at, v_token),
           v_place + v_step * v_at, ASCII(SUBSTRING(p_modes, v_at + 1, 1)), IF(p_kept, NULL, p_session),
           CONVERT(SUBSTRING(p_records, v_from, IF(v_to = 0, LENGTH(p_records) + 1, v_to) - v_from) USING utf8mb4));
        -- One line is that of all.
        IF v_to > 0 THEN
          SET v_from = v_to + 1, v_to = LOCATE(x'0a', p_records, v_from);
        END IF;
        SET v_at = v_at + 1;
      END WHILE;
      {ok}
      SELECT {what_stored} AS what, c.ticket, c.token AS number, c.place FROM {each}
        STRAIGHT_JOIN {schema}.contender c ON c.ticket = {nth} ORDER BY hundreds.n, ones.n;
    END IF;
    SET v_ticket = SUBSTRING(p_tickets, 1, 16), v_mode = ASCII(p_modes);
  END IF;
  IF NOT v_is_alone THEN
    SET v_has_behind = v_is_resent OR v_count > 1 OR p_anchor IS NOT NULL;
    {view}
  END IF;
  -- The doors are taken last: a transaction that was given up has none.
  IF v_count = 1 THEN
    -- Ours already if the join was sent before: what is taken twice, one release does not open.
    SET v_door = CONCAT('lk.', LOWER(HEX(p_tickets)));
    DO IF(IS_USED_LOCK(v_door) <=> CONNECTION_ID(), 0, GET_LOCK(v_door, 0));
  ELSE
    SELECT COUNT({take_door}) INTO v_doors FROM {each} STRAIGHT_JOIN {schema}.contender c ON c.ticket = {nth};
  END IF;
  COMMIT;
END
//
-- Gives up a place. The queue's row is locked: else one that joins meanwhile might see this contender, and wait at a door
-- that was opened before.
{procedure} {schema}.leave_v1(p_session binary(16), p_name varbinary(200), p_part tinyint, p_ticket binary(16))
{settings}
BEGIN
  DECLARE v_last bigint;
  DECLARE v_word varbinary(10) DEFAULT 'left';
  {begin}
  SELECT q.last INTO v_last FROM {schema}.queue q WHERE q.name = p_name AND q.part = p_part FOR UPDATE;
  DELETE FROM {schema}.contender WHERE ticket = p_ticket AND (session = p_session OR session IS NULL);
  IF ROW_COUNT() = 0 THEN
    IF EXISTS (SELECT 1 FROM {schema}.contender c
      WHERE c.ticket = p_ticket AND (c.session = p_session OR c.session IS NULL))
    THEN
      {interrupted}
    END IF;
    IF EXISTS (SELECT 1 FROM {schema}.broken b WHERE b.ticket = p_ticket AND b.session = p_session) THEN
      DELETE FROM {schema}.broken WHERE ticket = p_ticket AND session = p_session;
      SET v_word = 'broken';
    ELSEIF EXISTS (SELECT 1 FROM {schema}.session s WHERE s.id = p_session) THEN
      SET v_word = 'removed';
    ELSE
      SET v_word = 'gone';
    END IF;
  END IF;
  COMMIT;
  DO RELEASE_LOCK(CONCAT('lk.', LOWER(HEX(p_ticket))));
  SELECT 0 AS what, v_word AS text;
END
//
-- Gives up many places, as `leave` does each, whose session's they are. Their queues are locked in their order. The word
-- is that of those which were not there.
{procedure} {schema}.leave_all_v1(p_session binary(16), p_tickets mediumblob)
{settings}
BEGIN
  DECLARE v_tickets mediumblob DEFAULT p_tickets;
  DECLARE v_count bigint DEFAULT LENGTH(p_tickets) DIV 16;
  DECLARE v_name varbinary(200);
  DECLARE v_part tinyint;
  DECLARE v_last bigint;
  DECLARE v_doors bigint;
  DECLARE v_is_over boolean DEFAULT FALSE;
  DECLARE theirs CURSOR FOR
    SELECT DISTINCT c.name, c.part FROM {each} STRAIGHT_JOIN {schema}.contender c ON c.ticket = {nth}
    WHERE c.session = p_session OR c.session IS NULL ORDER BY c.name, c.part;
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_is_over = TRUE;
  {begin}
  OPEN theirs;
  FETCH theirs INTO v_name, v_part;
  WHILE NOT v_is_over DO
    SELECT q.last INTO v_last FROM {schema}.queue q WHERE q.name = v_name AND q.part = v_part FOR UPDATE;
    SET v_is_over = FALSE;
    FETCH theirs INTO v_name, v_part;
  END WHILE;
  CLOSE theirs;
  SELECT 0 AS what, IF(EXISTS (SELECT 1 FROM {schema}.session s WHERE s.id = p_session), 'removed', 'gone') AS text;
  SELECT {what_left} AS what, c.ticket FROM {each} STRAIGHT_JOIN {schema}.contender c ON c.ticket = {nth}
    WHERE c.session = p_session OR c.session IS NULL;
  SELECT {what_broken} AS what, b.ticket FROM {each} STRAIGHT_JOIN {schema}.broken b ON b.ticket = {nth}
    WHERE b.session = p_session;
  DELETE c FROM {each} STRAIGHT_JOIN {schema}.contender c ON c.ticket = {nth}
    WHERE c.session = p_session OR c.session IS NULL;
  DELETE b FROM {each} STRAIGHT_JOIN {schema}.broken b ON b.ticket = {nth} WHERE b.session = p_session;
  IF EXISTS (SELECT 1 FROM {each} STRAIGHT_JOIN {schema}.contender c ON c.ticket = {nth}
    WHERE c.session = p_session OR c.session IS NULL)
  THEN
    {interrupted}
  END IF;
  COMMIT;
  SELECT COUNT(RELEASE_LOCK(CONCAT('lk.', LOWER(HEX({nth}))))) INTO v_doors FROM {each};
END
//
-- Shows a queue: all of it, or what decides for one place, or for one at the tail.
{procedure} {schema}.look_v1(p_name varbinary(200), p_part tinyint, p_around binary(16), p_whole boolean)
{settings}
BEGIN
  {view_variables}
  {begin_look}
  {settled}
  {ok}
  {look}
  COMMIT;
END
//
-- Which of these contenders are not there.
{procedure} {schema}.missing_v1(p_tickets mediumblob)
{settings}
BEGIN
  DECLARE v_tickets mediumblob DEFAULT p_tickets;
  DECLARE v_count bigint DEFAULT LENGTH(p_tickets) DIV 16;
  {begin_look}
  {settled}
  {ok}
  {missing}
  COMMIT;
END
//
