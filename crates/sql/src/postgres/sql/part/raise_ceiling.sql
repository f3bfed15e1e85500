-- So far ahead of the clock that many beats pass until the next time. It is flushed before any join sees it.
  UPDATE {schema}.state s SET token_ceiling = greatest({clock}, s.token_floor) + {ceiling_ahead}, mark = {mark}
    WHERE s.token_ceiling < greatest({clock}, s.token_floor) + {ceiling_ahead} / 2 AND {is_present} AND {has_start}
      AND current_setting('lockkeeper.commit', true) IS DISTINCT FROM 'sync';
