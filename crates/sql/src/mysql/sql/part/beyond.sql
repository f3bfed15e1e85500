c.name = p_name AND c.part = p_part AND c.token <= v_edge_token AND (c.token < v_edge_token
        OR c.place < v_edge_place OR c.place = v_edge_place AND c.ticket < v_edge_ticket)
