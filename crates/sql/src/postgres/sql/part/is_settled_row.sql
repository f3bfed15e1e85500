s.is_settled AND {is_present}
