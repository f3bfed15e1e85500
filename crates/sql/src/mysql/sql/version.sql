-- Sessions of an earlier version keep their timeouts.
INSERT IGNORE INTO {schema}.state (timeout_max_ms)
  SELECT GREATEST({timeout_max_ms}, COALESCE(MAX(s.timeout_ms), 0)) FROM {schema}.session s
//
-- It comes last: what has a version is complete.
INSERT INTO {schema}.meta (version) VALUES ({version})
  ON DUPLICATE KEY UPDATE version = GREATEST(version, {version})
//
