SELECT cardinality(map(ARRAY['a', 'b'], ARRAY[1, 2])) AS a, cardinality(map()) AS b, cardinality(CAST(NULL AS map(varchar, integer))) AS c

SELECT cardinality(m) AS c FROM (VALUES map(ARRAY[1], ARRAY[2]), NULL) AS t(m)

SELECT ARRAY[1, 2] || 3 AS a, 0 || ARRAY[1, 2] AS b, ARRAY[1] || ARRAY[2] || 3 AS c, ARRAY['a'] || 'b' || 'c' AS d

SELECT ARRAY[ARRAY[1]] || ARRAY[2] AS a, ARRAY[1] || 2.5 AS b, ARRAY[1] || CAST(NULL AS integer) AS c, ARRAY[1] || CAST(NULL AS array(integer)) AS d

SELECT x || 1 AS y FROM (VALUES ARRAY[1], NULL) AS t(x)

SELECT ARRAY[1] || NULL AS a

SELECT ARRAY[1] || 'x' AS a

SELECT concat(ARRAY[1], ARRAY[2], ARRAY[3]) AS a, concat(ARRAY[1], CAST(NULL AS array(integer))) AS b

SELECT map_concat(map(ARRAY[1], ARRAY['a']), map(ARRAY[BIGINT '2'], ARRAY['b'])) AS a, map_concat(map(ARRAY['x'], ARRAY[1]), map(ARRAY['x', 'y'], ARRAY[2.5e0, 3])) AS b

SELECT map_concat(map(ARRAY['x'], ARRAY[1]), map()) AS a, map_concat(map(ARRAY['x'], ARRAY[1]), NULL) AS b

SELECT k, v FROM UNNEST(map(ARRAY['a', 'b'], ARRAY[1, 2])) AS t(k, v)

SELECT k, v, o FROM UNNEST(map(ARRAY['a', 'b'], ARRAY[1, NULL])) WITH ORDINALITY AS t(k, v, o) ORDER BY o

SELECT id, k, v FROM (VALUES (1, map(ARRAY['a'], ARRAY[1])), (2, map()), (3, NULL)) AS s(id, m) CROSS JOIN UNNEST(m) AS t(k, v)

SELECT id, k, v FROM (VALUES (1, map(ARRAY['a'], ARRAY[1])), (3, NULL)) AS s(id, m) LEFT JOIN UNNEST(m) AS t(k, v) ON true ORDER BY id

SELECT * FROM UNNEST(map(ARRAY['a', 'b'], ARRAY[1, 2]))

SELECT k, sum(v) AS s FROM (VALUES map(ARRAY['a', 'b'], ARRAY[1, 2]), map(ARRAY['a'], ARRAY[5])) AS s(m) CROSS JOIN UNNEST(m) AS t(k, v) GROUP BY k ORDER BY k

SELECT id, key, number FROM samples CROSS JOIN UNNEST(counts) AS t(key, number) ORDER BY id, key

SELECT * FROM UNNEST(ARRAY[ROW(1, 'a'), ROW(2, 'b'), NULL]) AS t(x, y)

SELECT p, q FROM UNNEST(ARRAY[CAST(ROW(1, 'a') AS ROW(p integer, q varchar))])

SELECT x, y, o FROM UNNEST(ARRAY[ROW(1, 'a'), ROW(2, 'b')]) WITH ORDINALITY AS t(x, y, o)

SELECT id, x, y FROM (VALUES (1, ARRAY[ROW(1, 'a')]), (2, NULL)) AS s(id, a) LEFT JOIN UNNEST(a) AS t(x, y) ON true ORDER BY id

SELECT * FROM UNNEST(ARRAY[1, 2], ARRAY['a']) WITH ORDINALITY AS t(x, y, n) ORDER BY n

SELECT * FROM UNNEST(ARRAY[1, 2]) WITH ORDINALITY

SELECT ARRAY[1][2] AS x

SELECT ARRAY[1][0] AS x

SELECT map(ARRAY['a'], ARRAY[1])['b'] AS x

SELECT element_at(ARRAY[1], 0) AS x

SELECT ARRAY[1, 2][1] AS x, map(ARRAY[5], ARRAY['a'])[5] AS y, ARRAY[7, 8][x] AS z, ARRAY[7, 8][x - 1] AS w, element_at(ARRAY[7, 8], -1) AS v FROM (VALUES 2) AS t(x)

SELECT CAST(x AS real) AS r FROM (VALUES 1e300, -1e300, 1e-60, 1.5e0, nan(), infinity()) AS t(x) ORDER BY 1

SELECT TRY_CAST(x AS real) AS r FROM (VALUES 1e300, 1e-60) AS t(x) ORDER BY 1

SELECT mod(7, 0) AS m

SELECT cbrt(27) = 3 AS a, cbrt(1000000) = 100 AS b, cbrt(-8e0) AS c, cbrt(2e0) AS d, cbrt(nan()) AS e, cbrt(0e0) AS f, cbrt(infinity()) AS g

SELECT ln(-1) AS a, ln(0) AS b, log10(-1) AS c, log2(0) AS d, log(2, 0) AS e, sqrt(-1) AS f, acos(2) AS g, asin(-2) AS h

SELECT date_format(TIMESTAMP '2026-01-01 10:00:00', '%x-%v %q %k %l %c %e %i %s %f %p %r %T %y %%') AS f

SELECT date_format(TIMESTAMP '2026-01-01 10:00:00', '%u') AS f

SELECT date_format(TIMESTAMP '2026-01-01 10:00:00', '%D') AS f

-- refused
SELECT date_parse('2026-01', '%x-%v') AS f
