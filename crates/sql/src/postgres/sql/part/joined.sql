CASE WHEN q.last < {clock} - {rest} THEN 0 ELSE q.joined END
