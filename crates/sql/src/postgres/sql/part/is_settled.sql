EXISTS (SELECT FROM {schema}.state s WHERE {is_settled_row})
