-- What people ask for: the names of all queues, and to show all of them, or all of one; and that a contender gives up, or is removed.

{procedure} {schema}.inspect_v1(p_name varbinary(200), p_part tinyint)
{settings}
BEGIN
  {begin_look}
  {ok}
  SELECT {what_contender} AS what, c.ticket, c.session, c.token AS number, c.place, c.mode, c.record AS text, c.ask
    FROM {schema}.contender c WHERE c.name = p_name AND c.part = p_part ORDER BY c.token, c.place, c.ticket;
  COMMIT;
END
//
-- Shows all queues whose names begin so, as far as they have contenders: the names and the contenders of one moment, and
-- the sessions of these; and how many have joined the queues that changed since a former look, which is named by its
-- number, or since they began to count. Who waits at a gate holds nothing there.
{procedure} {schema}.follow_v1(p_prefix varbinary(200), p_since bigint)
{settings}
BEGIN
  DECLARE v_now bigint DEFAULT {now};
  {begin_look}
  SELECT 0 AS what, 'ok' AS text, v_now AS number;
  SELECT {what_placed} AS what, c.ticket, c.session, c.token AS number, c.place, c.mode, c.part AS epoch,
    c.record AS text, c.ask, c.name AS bytes
    FROM {schema}.contender c WHERE c.name >= p_prefix AND c.name < CONCAT(p_prefix, x'ff');
  SELECT {what_beat} AS what, s.id AS session, s.beat AS number, s.epoch, s.timeout_ms
    FROM {schema}.session s WHERE s.id IN (
      SELECT c.session FROM {schema}.contender c WHERE c.name >= p_prefix AND c.name < CONCAT(p_prefix, x'ff'));
  SELECT {what_joined} AS what, q.joined AS number, q.part AS epoch, q.last >> 20 AS timeout_ms, q.name AS bytes
    FROM {schema}.queue q WHERE q.name >= p_prefix AND q.name < CONCAT(p_prefix, x'ff')
      AND q.part <> {part_gate} AND q.last >= GREATEST(LEAST(p_since, v_now) - {late}, v_now - {rest});
  COMMIT;
END
//
-- The same for clients of an earlier version, which pass over what has joined.
{procedure} {schema}.inspect_all_v1(p_prefix varbinary(200))
{settings}
CALL {schema}.follow_v1(p_prefix, 9223372036854775807)
//
{procedure} {schema}.queues_v1(p_prefix varbinary(200))
{settings}
BEGIN
  {begin_look}
  {ok}
  -- No name has a byte 255, which is none of UTF-8's.
  SELECT {what_queue} AS what, q.part AS number, q.name AS text FROM {schema}.queue q
    WHERE q.name >= p_prefix AND q.name < CONCAT(p_prefix, x'ff')
      AND (EXISTS (SELECT 1 FROM {schema}.contender c WHERE c.name = q.name AND c.part = q.part)
        OR EXISTS (SELECT 1 FROM {schema}.value v WHERE v.name = q.name AND v.part = q.part))
    ORDER BY q.name, q.part;
  COMMIT;
END
//
-- Removes a contender that has this token, or asks it to give up.
{procedure} {schema}.request_v1(
  p_name varbinary(200), p_part tinyint, p_ticket binary(16), p_token bigint, p_ask mediumtext CHARACTER SET utf8mb4)
{settings}
BEGIN
  DECLARE v_last bigint;
  DECLARE v_is_there boolean DEFAULT FALSE;
  DECLARE v_owner binary(16);
  {begin}
  SELECT q.last INTO v_last FROM {schema}.queue q WHERE q.name = p_name AND q.part = p_part FOR UPDATE;
  SELECT TRUE, c.session INTO v_is_there, v_owner FROM {schema}.contender c
    WHERE c.ticket = p_ticket AND c.name = p_name AND c.part = p_part AND c.token = COALESCE(p_token, c.token)
    FOR UPDATE;
  IF v_is_there AND p_token IS NOT NULL THEN
    DELETE FROM {schema}.contender WHERE ticket = p_ticket;
    IF EXISTS (SELECT 1 FROM {schema}.contender c WHERE c.ticket = p_ticket) THEN
      {interrupted}
    END IF;
    IF v_owner IS NOT NULL THEN
      INSERT INTO {schema}.broken (ticket, session) VALUES (p_ticket, v_owner)
        ON DUPLICATE KEY UPDATE session = v_owner;
    END IF;
  ELSEIF v_is_there THEN
    UPDATE {schema}.contender c SET c.ask = p_ask WHERE c.ticket = p_ticket;
    IF NOT EXISTS (SELECT 1 FROM {schema}.contender c WHERE c.ticket = p_ticket AND c.ask <=> p_ask) THEN
      {interrupted}
    END IF;
  END IF;
  SELECT 0 AS what, 'ok' AS text, v_is_there AS number;
  COMMIT;
END
//
