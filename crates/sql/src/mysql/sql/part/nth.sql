CAST(SUBSTRING(v_tickets, (hundreds.n * 1000 + ones.n) * 16 + 1, 16) AS binary(16))
