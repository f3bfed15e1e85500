DECLARE EXIT HANDLER FOR SQLEXCEPTION
  BEGIN
    -- Else a statement that waited for too long would leave the transaction and its locks open.
    ROLLBACK;
    RESIGNAL;
  END;
  -- What stands on reading what was committed while a lock was waited for would grant twice under REPEATABLE READ, the
  -- server's default.
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  START TRANSACTION;
