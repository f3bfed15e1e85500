c.name = p_name AND c.part = p_part AND c.token <= v_token AND (c.token < v_token OR c.place < v_place
        OR c.place = v_place AND c.ticket <= v_ticket)
