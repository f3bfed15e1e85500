SELECT 0 AS what, 'ok' AS text;
