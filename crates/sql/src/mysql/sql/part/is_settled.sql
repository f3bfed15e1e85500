EXISTS (SELECT 1 FROM {schema}.state s WHERE s.is_settled AND s.run = {run})
