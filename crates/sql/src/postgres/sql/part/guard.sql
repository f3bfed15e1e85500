{read_committed}
  {durable}
