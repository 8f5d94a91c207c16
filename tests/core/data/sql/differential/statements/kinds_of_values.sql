SELECT cast(TIMESTAMP '2026-01-01 10:00:00' AS varchar) AS a, cast(TIMESTAMP '2026-01-01 10:00:00.5' AS varchar) AS b

SELECT cast(TIMESTAMP '2026-01-01 10:00:00.123456' AS varchar) AS b

SELECT cast(x AS varchar) AS b FROM (VALUES TIMESTAMP '2026-01-01 10:00:00.000', TIMESTAMP '2026-01-01 10:00:00.120') t(x)

SELECT concat('a', cast(cast('2026-01-01 10:00:00' AS timestamp) AS varchar)) AS x

SELECT cast(cast('2026-01-01 10:00:00.1234' AS timestamp(6)) AS varchar) AS x

SELECT cast(DATE '2026-01-01' AS varchar) AS x

SELECT cast(cast(DATE '2026-01-01' AS timestamp) AS varchar) AS x

SELECT cast(date_trunc('hour', TIMESTAMP '2026-01-01 10:30:00') AS varchar) AS x

SELECT cast(TIMESTAMP '2026-01-01 10:00:00' + INTERVAL '1' SECOND AS varchar) AS x

-- refused
SELECT TIMESTAMP '2026-01-01 10:00:00.123456789' AS x

-- refused
SELECT cast('2026-01-01 10:00:00.123456789' AS timestamp(9)) AS x

-- refused
SELECT cast('2026-01-01 10:00:00.123456789012' AS timestamp(12)) AS x

-- refused
SELECT TIMESTAMP '2026-01-01 10:00:00.123456789' = TIMESTAMP '2026-01-01 10:00:00.123456788' AS x

SELECT cast(TIMESTAMP '2026-01-01 10:00:00.6' AS timestamp(0)) AS x

SELECT cast(TIMESTAMP '2026-01-01 10:00:00.66' AS timestamp(1)) AS x

-- refused
SELECT TIME '10:00:00.123456789' AS x

SELECT TIME '10:00:00' AS x

SELECT cast(TIME '10:00:00.5' AS varchar) AS x

-- refused
SELECT TIMESTAMP '2026-01-01 10:00:00 UTC' AT TIME ZONE 'Europe/Berlin' AS x

-- refused
SELECT TIMESTAMP '2026-01-01 10:00:00' AT TIME ZONE 'Europe/Berlin' AS x

-- refused
SELECT x AT TIME ZONE 'America/New_York' AS y FROM (VALUES TIMESTAMP '2026-07-01 10:00:00 UTC') t(x)

SELECT cast(TIMESTAMP '2026-01-01 10:00:00 UTC' AT TIME ZONE 'Europe/Berlin' AS timestamp) AS x

SELECT hour(TIMESTAMP '2026-01-01 10:00:00 UTC' AT TIME ZONE 'Europe/Berlin') AS x

-- refused
SELECT max(TIMESTAMP '2026-01-01 10:00:00 UTC' AT TIME ZONE 'Europe/Berlin') AS x

-- refused
SELECT TIMESTAMP '2026-01-01 10:00:00 UTC' AT TIME ZONE 'Mars/X' AS x

-- refused
SELECT TIMESTAMP '2026-01-01 10:00:00 UTC' AT TIME ZONE '+02:00' AS x

SELECT current_timestamp AT TIME ZONE 'UTC' > TIMESTAMP '2020-01-01 00:00:00 UTC' AS x

-- refused
SELECT ARRAY[TIMESTAMP '2026-01-01 10:00:00 UTC' AT TIME ZONE 'Europe/Berlin'] AS x

-- refused
SELECT INTERVAL '14' MONTH AS x

-- refused
SELECT INTERVAL '2' YEAR AS x

-- refused
SELECT INTERVAL '-14' MONTH AS x

SELECT INTERVAL '14' DAY AS x

SELECT INTERVAL '90' MINUTE AS x

-- refused
SELECT INTERVAL '1' YEAR + INTERVAL '2' MONTH AS x

-- refused
SELECT 3 * INTERVAL '2' MONTH AS x

-- refused
SELECT INTERVAL '7' MONTH / 2 AS x

-- refused
SELECT -INTERVAL '2' MONTH AS x

SELECT INTERVAL '12' MONTH = INTERVAL '1' YEAR AS x

SELECT INTERVAL '30' DAY < INTERVAL '1' MONTH AS x

SELECT INTERVAL '30' DAY = INTERVAL '720' HOUR AS x

SELECT DATE '2026-01-31' + INTERVAL '1' MONTH AS x

-- refused
SELECT ARRAY[INTERVAL '1' MONTH] AS x

SELECT extract(YEAR FROM INTERVAL '14' MONTH) AS x

SELECT TIMESTAMP '2026-01-02 00:00:00' - TIMESTAMP '2026-01-01 00:00:00' AS x

SELECT DATE '2026-01-02' - DATE '2026-01-01' AS x

SELECT array_union(ARRAY[1], CAST(NULL AS array(integer))) AS x

SELECT array_union(CAST(NULL AS array(integer)), ARRAY[1]) AS x

SELECT array_intersect(ARRAY[1], CAST(NULL AS array(integer))) AS x

SELECT array_except(ARRAY[1], CAST(NULL AS array(integer))) AS x

SELECT array_except(CAST(NULL AS array(integer)), ARRAY[1]) AS x

SELECT arrays_overlap(ARRAY[1], CAST(NULL AS array(integer))) AS x

SELECT arrays_overlap(ARRAY[1,NULL], ARRAY[2]) AS x

SELECT array_distinct(CAST(NULL AS array(integer))) AS x

SELECT concat(ARRAY[1], CAST(NULL AS array(integer))) AS x

SELECT ARRAY[1] || CAST(NULL AS array(integer)) AS x

SELECT flatten(ARRAY[ARRAY[1], NULL, ARRAY[2]]) AS x

SELECT array_sort(ARRAY[2,NULL,1]) AS x

SELECT array_sort(CAST(NULL AS array(integer))) AS x

SELECT contains(CAST(NULL AS array(integer)), 1) AS x, contains(ARRAY[1,NULL], NULL) AS y

SELECT array_position(CAST(NULL AS array(integer)), 1) AS x

SELECT array_remove(ARRAY[1,NULL,2], 1) AS x

SELECT slice(ARRAY[1,2,3], 5, 2) AS x

SELECT slice(ARRAY[1,2,3], -5, 2) AS x

SELECT slice(ARRAY[1,2,3], 0, 2) AS x

SELECT slice(ARRAY[1,2,3], 1, 0) AS x

SELECT slice(ARRAY[1,2,3], 1, -1) AS x

SELECT slice(ARRAY[1,2,3], -2, 5) AS x

SELECT slice(ARRAY[1,2,3], 2, 9) AS x

SELECT slice(CAST(NULL AS array(integer)), 1, 2) AS x

SELECT slice(ARRAY[1,2,3], NULL, 2) AS x

SELECT ROW(1, NULL) = ROW(1, 2) AS x

SELECT ROW(1, NULL) = ROW(2, 2) AS x

SELECT ROW(1, NULL) = ROW(1, NULL) AS x

SELECT ROW(1, NULL) <> ROW(1, 2) AS x

SELECT ROW(1, 2) < ROW(1, NULL) AS x

SELECT ROW(NULL, 2) < ROW(1, NULL) AS x

SELECT ROW(1, NULL) IN (ROW(1, 2), ROW(1, NULL)) AS x

-- refused
SELECT (1, NULL) IN (SELECT 1, 2) AS x

-- refused
SELECT ROW(1, NULL) IS DISTINCT FROM ROW(1, NULL) AS x

-- refused
SELECT x = y AS z FROM (VALUES (ROW(1, 'a'), ROW(1, CAST(NULL AS varchar)))) t(x, y)

SELECT * FROM UNNEST(ARRAY[ROW(1, 'a'), ROW(2, 'b')]) AS t(x, y)

SELECT * FROM UNNEST(ARRAY[ROW(1, 'a'), NULL]) AS t(x, y)

SELECT * FROM UNNEST(ARRAY[CAST(ROW(1, 'a') AS ROW(p integer, q varchar))]) AS t

SELECT x, y, o FROM UNNEST(ARRAY[ROW(1, 'a'), ROW(2, 'b')]) WITH ORDINALITY AS t(x, y, o)

SELECT t.x FROM UNNEST(ARRAY[ROW(1, 'a')]) AS t(x, y)

SELECT id, x, y FROM (VALUES (1, ARRAY[ROW(1, 'a')]), (2, NULL)) s(id, a) CROSS JOIN UNNEST(a) AS t(x, y)

SELECT id, x, y FROM (VALUES (1, ARRAY[ROW(1, 'a')]), (2, NULL)) s(id, a) LEFT JOIN UNNEST(a) AS t(x, y) ON true

-- refused
SELECT try_cast(ARRAY['1','x'] AS array(integer)) AS x

-- refused
SELECT try_cast(ARRAY[1,2] AS array(varchar)) AS x

SELECT cast(ARRAY['1','2'] AS array(integer)) AS x

SELECT cast(ARRAY['1_000'] AS array(integer)) AS x

SELECT cast(ARRAY[1.5e0] AS array(integer)) AS x

-- refused
SELECT cast(ARRAY[1.5e0] AS array(varchar)) AS x

SELECT cast(ARRAY['yes'] AS array(boolean)) AS x

-- refused
SELECT try_cast(map(ARRAY['a'], ARRAY['x']) AS map(varchar, integer)) AS x

-- refused
SELECT cast(ROW('1', 'x') AS ROW(a integer, b varchar)) AS x

SELECT TIME '24:00:00' AS x

SELECT cast('24:00' AS time) AS x

SELECT cast('24:00:00' AS time) AS x

SELECT try_cast('24:00:00' AS time) AS x

SELECT cast('10:00' AS time) AS x

SELECT TIMESTAMP '2026-01-01 24:00:00' AS x

SELECT cast('2026-01-01 24:00:00' AS timestamp) AS x

SELECT try_cast('2026-01-01 24:00:00' AS timestamp) AS x

SELECT cast(1.005e0 AS decimal(10,2)) AS x

SELECT cast(2.675e0 AS decimal(10,2)) AS x

SELECT cast(0.125e0 AS decimal(10,2)) AS x

SELECT cast(-0.125e0 AS decimal(10,2)) AS x

SELECT cast(x AS decimal(10,1)) AS y FROM (VALUES 0.05e0, 0.15e0, 0.25e0, 0.35e0, 0.45e0, 2.5e0, -0.15e0) t(x)

SELECT cast(1e20 AS decimal(38,10)) AS x

SELECT cast(123456789.123456789e0 AS decimal(38,15)) AS x

SELECT cast(nan() AS decimal(10,2)) AS x

SELECT try_cast(nan() AS decimal(10,2)) AS x

SELECT cast(1e30 AS decimal(10,2)) AS x

SELECT cast(REAL '1.005' AS decimal(10,2)) AS x

SELECT cast(0.1e0 AS decimal(38,20)) AS x

SELECT cast('1.005' AS decimal(10,2)) AS x, cast('-1.005' AS decimal(10,2)) AS y

SELECT cast(1.005 AS decimal(10,2)) AS x, cast(-1.005 AS decimal(10,2)) AS y

-- refused
SELECT cast(1e100 AS varchar) AS x
