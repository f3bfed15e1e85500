s.is_settled AND s.run = {run}
