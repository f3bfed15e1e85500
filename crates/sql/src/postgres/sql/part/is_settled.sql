EXISTS (SELECT FROM {schema}.state s WHERE s.is_settled AND {is_present})
