EXISTS (SELECT 1 FROM {schema}.state s WHERE {is_settled_row})
