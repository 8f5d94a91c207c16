SELECT greatest(nan(), 1e0) AS a, least(nan(), 1e0) AS b, greatest(nan(), nan()) AS c, greatest(REAL '1.5', nan()) AS d

SELECT greatest(x, 2e0) AS a, least(x, 2e0) AS b, greatest(x, 1) AS c FROM (VALUES nan(), 1e0, NULL) AS t(x)

SELECT nan() IN (nan(), 1e0) AS a, nan() NOT IN (nan()) AS b, 1e0 IN (nan(), 1e0) AS c

SELECT x, x IN (nan(), 1e0) AS a, x NOT IN (1e0, NULL) AS b FROM (VALUES nan(), 1e0, 2e0) AS t(x) ORDER BY x

SELECT x, x IN (SELECT y FROM (VALUES nan(), 5e0) AS u(y)) AS a FROM (VALUES nan(), 1e0, 5e0) AS t(x) ORDER BY x

SELECT x FROM (VALUES nan(), 1e0, 5e0) AS t(x) WHERE x IN (SELECT y FROM (VALUES nan(), 5e0) AS u(y))

SELECT x FROM (VALUES nan(), 1e0, 2e0) AS t(x) WHERE x NOT IN (1e0) ORDER BY x

SELECT x FROM (VALUES nan(), 1e0, infinity(), NULL, -infinity()) AS t(x) ORDER BY x

SELECT x FROM (VALUES nan(), 1e0, infinity(), NULL, -infinity()) AS t(x) ORDER BY x DESC

SELECT max(x) AS a, min(x) AS b, max(x) FILTER (WHERE x > 0e0) AS c, max(DISTINCT x) AS d FROM (VALUES nan(), 1e0, NULL) AS t(x)

SELECT y, max(x) OVER (ORDER BY y) AS a FROM (VALUES (nan(), 1), (1e0, 2), (-1e0, 3)) AS t(x, y) ORDER BY y

SELECT x, max(y) AS m FROM (VALUES (1, nan()), (1, 2e0), (2, nan())) AS t(x, y) GROUP BY x HAVING max(y) > 0e0 ORDER BY max(y)

SELECT x, x BETWEEN 0e0 AND nan() AS a, x BETWEEN 0e0 AND 1e0 AS b, NOT x BETWEEN 0e0 AND 1e0 AS c FROM (VALUES nan(), 1e0) AS t(x) ORDER BY x

SELECT CASE x WHEN nan() THEN 'n' ELSE 'o' END AS a, nullif(x, nan()) AS b, nullif(x, 1e0) > 0e0 AS c FROM (VALUES nan(), 1e0) AS t(x) ORDER BY x

SELECT x NOT BETWEEN 0e0 AND 1e0 AS a, 1e0 NOT BETWEEN x AND 2e0 AS b FROM (VALUES nan(), 1e0, NULL) AS t(x) ORDER BY x

SELECT id, ratio NOT BETWEEN 0e0 AND 2e0 AS a FROM samples WHERE ratio NOT BETWEEN 0e0 AND 2e0 ORDER BY id
