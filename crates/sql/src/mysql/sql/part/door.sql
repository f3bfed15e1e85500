CONCAT('lk.', LOWER(HEX(c.ticket)))
