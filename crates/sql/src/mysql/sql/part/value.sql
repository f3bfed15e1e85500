SELECT {what_value} AS what, v.version AS number, v.bytes FROM {schema}.value v
    WHERE v.name = p_name AND v.part = p_part;
