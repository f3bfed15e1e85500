-- A proxy's connection outlives a change of the server. The client takes this for the end of its own connection, and
  -- greets the server anew.
  IF NOT {is_settled} THEN
    SIGNAL SQLSTATE '08S01' SET MYSQL_ERRNO = 1053,
      MESSAGE_TEXT = 'the server may lack what it had acknowledged, and grants no lock yet';
  END IF;
