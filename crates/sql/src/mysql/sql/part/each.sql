{schema}.number hundreds STRAIGHT_JOIN {schema}.number ones
      ON hundreds.n <= v_count DIV 1000 AND ones.n < LEAST(v_count, 1000) AND hundreds.n * 1000 + ones.n < v_count
