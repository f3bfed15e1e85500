-- A pooler's connection outlives a change of the server. The client takes this for the end of its own connection, and
  -- greets the server anew.
  IF NOT {is_settled} THEN
    RAISE EXCEPTION 'the server may lack what it had acknowledged, and grants no lock yet' USING ERRCODE = '08006';
  END IF;
