IF(q.last < {now} - {rest}, 0, q.joined)
