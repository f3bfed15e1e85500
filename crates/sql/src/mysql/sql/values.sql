-- The value of a queue, and who watches it.

{procedure} {schema}.watch_v1(p_session binary(16), p_epoch bigint, p_name varbinary(200), p_part tinyint)
{settings}
answer: BEGIN
  DECLARE v_epoch bigint;
  DECLARE v_last bigint;
  DECLARE p_around binary(16);
  DECLARE p_whole boolean DEFAULT TRUE;
  {view_variables}
  {begin}
  {settled}
  {session_stands}
  {lock_queue}
  INSERT INTO {schema}.watch (name, part, session) VALUES (p_name, p_part, p_session)
    ON DUPLICATE KEY UPDATE part = p_part;
  {ok}
  {look}
  {value}
  COMMIT;
END
//
{procedure} {schema}.unwatch_v1(p_session binary(16), p_name varbinary(200), p_part tinyint)
{settings}
BEGIN
  {begin}
  DELETE FROM {schema}.watch WHERE name = p_name AND part = p_part AND session = p_session;
  IF EXISTS (SELECT 1 FROM {schema}.watch w
    WHERE w.name = p_name AND w.part = p_part AND w.session = p_session)
  THEN
    {interrupted}
  END IF;
  {ok}
  COMMIT;
END
//
{procedure} {schema}.value_v1(p_name varbinary(200), p_part tinyint)
{settings}
BEGIN
  {begin_look}
  {ok}
  {value}
  COMMIT;
END
//
-- Replaces a value if it is as expected: 0 is any, 1 none, 2 one of this version. No bytes: it is removed.
{procedure} {schema}.set_value_v1(
  p_session binary(16), p_epoch bigint, p_name varbinary(200), p_part tinyint, p_expected bigint, p_version bigint,
  p_bytes mediumblob)
{settings}
answer: BEGIN
  DECLARE v_epoch bigint;
  DECLARE v_last bigint;
  DECLARE v_modes int;
  DECLARE v_version bigint;
  {begin}
  {session_stands}
  {lock_queue}
  SELECT v.version INTO v_version FROM {schema}.value v WHERE v.name = p_name AND v.part = p_part;
  IF p_expected = 1 AND v_version IS NOT NULL OR p_expected = 2 AND NOT v_version <=> p_version THEN
    SELECT 0 AS what, 'no' AS text;
    ROLLBACK;
    LEAVE answer;
  END IF;
  IF p_bytes IS NULL THEN
    DELETE FROM {schema}.value WHERE name = p_name AND part = p_part;
    IF EXISTS (SELECT 1 FROM {schema}.value v WHERE v.name = p_name AND v.part = p_part) THEN
      {interrupted}
    END IF;
    SET v_last = 0;
  ELSE
    SET v_last = GREATEST(v_last, {now}) + 1;
    UPDATE {schema}.queue q SET q.joined = {joined}, q.last = v_last WHERE q.name = p_name AND q.part = p_part;
    INSERT INTO {schema}.value (name, part, version, bytes) VALUES (p_name, p_part, v_last, p_bytes)
      ON DUPLICATE KEY UPDATE version = v_last, bytes = p_bytes;
  END IF;
  SELECT 0 AS what, 'ok' AS text, v_last AS number;
  COMMIT;
END
//
