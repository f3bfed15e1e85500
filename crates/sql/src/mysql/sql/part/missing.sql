SELECT {what_missing} AS what, {nth} AS ticket FROM {each} LEFT JOIN {schema}.contender c ON c.ticket = {nth}
      WHERE c.ticket IS NULL;
