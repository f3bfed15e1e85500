-- It comes last: what has a version is complete.
INSERT INTO {schema}.meta (version) VALUES ({version})
  ON DUPLICATE KEY UPDATE version = GREATEST(version, {version})
//
