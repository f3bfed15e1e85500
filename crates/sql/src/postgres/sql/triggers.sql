-- Who is told of a departure. These are triggers, so that what an operator deletes by hand is told too.

-- Tells a session that something is asked of it. A departure tells it so too, if another than itself removed its
-- contender: a session that removes its own says so in `lockkeeper.own`, for its transaction.
CREATE OR REPLACE FUNCTION {schema}.tell_session_v1(p_session uuid) RETURNS void
LANGUAGE plpgsql {settings} AS $$
BEGIN
  IF EXISTS (SELECT FROM {schema}.session s WHERE s.id = p_session AND s.listening) THEN
    PERFORM pg_notify('{channel}' || replace(p_session::text, '-', ''), 'a');
  END IF;
END $$;

-- Tells the sessions that watch a queue of a change there.
CREATE OR REPLACE FUNCTION {schema}.tell_watchers_v1(p_name text, p_part smallint) RETURNS void
LANGUAGE plpgsql {settings} AS $$
DECLARE
  told uuid;
BEGIN
  FOR told IN
    SELECT w.session FROM {schema}.watch w JOIN {schema}.session s ON s.id = w.session
    WHERE w.name = p_name AND w.part = p_part AND s.listening
  LOOP
    PERFORM pg_notify('{channel}' || replace(told::text, '-', ''), 'c ' || p_part || ' ' || p_name);
  END LOOP;
END $$;

-- The sessions that are told: those of the readers right behind, up to and including the first that is no reader; those
-- that watch the queue; and the one whose contender it was, unless it removes it itself.
CREATE OR REPLACE FUNCTION {schema}.tell_departure_v1() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER {settings} AS $$
DECLARE
  behind record := OLD;
BEGIN
  LOOP
    -- One by one: a search for all of them would be planned for all, and sort them.
    SELECT c.token, c.place, c.ticket, c.session, c.mode, s.listening INTO behind
    FROM {schema}.contender c LEFT JOIN {schema}.session s ON s.id = c.session
    WHERE c.name = OLD.name AND c.part = OLD.part
      AND (c.token, c.place, c.ticket) > (behind.token, behind.place, behind.ticket)
    ORDER BY c.token, c.place, c.ticket LIMIT 1;
    EXIT WHEN NOT FOUND;
    IF behind.listening AND {is_settled} THEN
      PERFORM pg_notify('{channel}' || replace(behind.session::text, '-', ''),
        'd ' || replace(OLD.ticket::text, '-', ''));
    END IF;
    EXIT WHEN behind.mode <> {mode_read};
  END LOOP;
  IF EXISTS (SELECT FROM {schema}.watch w WHERE w.name = OLD.name AND w.part = OLD.part) THEN
    PERFORM {schema}.tell_watchers_v1(OLD.name, OLD.part);
  END IF;
  IF OLD.session::text IS DISTINCT FROM current_setting('lockkeeper.own', true) THEN
    PERFORM {schema}.tell_session_v1(OLD.session);
  END IF;
  RETURN NULL;
END $$;

-- What a session leaves behind goes with it, also if an operator deletes its row.
CREATE OR REPLACE FUNCTION {schema}.bury_session_v1() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER {settings} AS $$
BEGIN
  PERFORM FROM {schema}.queue q
    WHERE (q.name, q.part) IN (SELECT c.name, c.part FROM {schema}.contender c WHERE c.session = OLD.id)
    ORDER BY q.name, q.part FOR UPDATE;
  DELETE FROM {schema}.contender c WHERE c.session = OLD.id;
  DELETE FROM {schema}.watch w WHERE w.session = OLD.id;
  DELETE FROM {schema}.broken b WHERE b.session = OLD.id;
  IF OLD.listening AND OLD.id::text IS DISTINCT FROM current_setting('lockkeeper.own', true) THEN
    PERFORM pg_notify('{channel}' || replace(OLD.id::text, '-', ''), 'a');
  END IF;
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER tell_departure AFTER DELETE ON {schema}.contender
FOR EACH ROW EXECUTE FUNCTION {schema}.tell_departure_v1();
CREATE OR REPLACE TRIGGER bury_session AFTER DELETE ON {schema}.session
FOR EACH ROW EXECUTE FUNCTION {schema}.bury_session_v1();
