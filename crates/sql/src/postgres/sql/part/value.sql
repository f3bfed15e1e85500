RETURN QUERY
    SELECT {what_value}::smallint, NULL::uuid, NULL::uuid, v.version, NULL::double precision, NULL::smallint,
      NULL::bigint, NULL::bigint, NULL::text, NULL::text, v.bytes
    FROM {schema}.value v WHERE v.name = p_name AND v.part = v_part;
