SELECT 1, 'a', cast(NULL AS bigint)

SELECT id, id + 1, max(id) OVER () FROM samples ORDER BY id

SELECT *, id * 2 FROM (SELECT id, small FROM samples) ORDER BY id

SELECT count(*), max(id) FROM samples

SELECT * FROM (VALUES (1, 'a'), (2, 'b')) AS t(x, y) ORDER BY x

VALUES (1, 'a'), (2, 'b')

SELECT * FROM (VALUES 1, 2, 3) ORDER BY 1

SELECT id, small FROM samples ORDER BY small

SELECT id, small FROM samples ORDER BY small DESC

SELECT id, flag FROM samples ORDER BY flag NULLS FIRST, id DESC

SELECT flag, count(*) FROM samples GROUP BY flag ORDER BY flag

SELECT flag, count(*) AS n FROM samples GROUP BY flag HAVING count(*) > 1 ORDER BY n DESC

SELECT coalesce(cast(flag AS varchar), 'none') AS f, sum(id) FROM samples GROUP BY 1 ORDER BY 1

SELECT flag, small, count(*) FROM samples GROUP BY ROLLUP (flag, small) ORDER BY 1, 2, 3

SELECT flag, small, count(*), grouping(flag, small) FROM samples GROUP BY CUBE (flag, small) ORDER BY 4, 1, 2, 3

SELECT flag, small, count(*) FROM samples GROUP BY GROUPING SETS ((flag), (small), ()) ORDER BY 1, 2, 3

SELECT id, row_number() OVER (ORDER BY small), rank() OVER (ORDER BY flag), dense_rank() OVER (ORDER BY flag), ntile(2) OVER (ORDER BY id) FROM samples ORDER BY id

SELECT id, lag(id) OVER (ORDER BY id), lead(id, 2, 0) OVER (ORDER BY id), first_value(id) OVER (ORDER BY id DESC), last_value(id) OVER (ORDER BY id), nth_value(id, 2) OVER (ORDER BY id) FROM samples ORDER BY id

SELECT id, sum(id) OVER (ORDER BY id), sum(id) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW), avg(price) OVER (PARTITION BY flag) FROM samples ORDER BY id

SELECT id, percent_rank() OVER (ORDER BY id), cume_dist() OVER (ORDER BY id) FROM samples ORDER BY id

SELECT id, lag(small) IGNORE NULLS OVER (ORDER BY id) FROM samples ORDER BY id

SELECT id, sum(id) OVER w FROM samples WINDOW w AS (PARTITION BY flag ORDER BY id) ORDER BY id

SELECT id, count(*) OVER (ORDER BY id RANGE BETWEEN 2 PRECEDING AND CURRENT ROW) FROM samples ORDER BY id

SELECT DISTINCT flag FROM samples ORDER BY flag

SELECT id FROM samples WHERE id IN (SELECT small FROM samples) ORDER BY id

SELECT id FROM samples WHERE id NOT IN (SELECT small FROM samples) ORDER BY id

SELECT a.id, b.id FROM samples a JOIN samples b ON a.id = b.id - 1 ORDER BY a.id

SELECT a.id, b.small FROM samples a LEFT JOIN samples b ON a.id = b.small ORDER BY a.id

SELECT a.id, b.id FROM samples a FULL OUTER JOIN samples b ON a.id = b.id + 3 ORDER BY 1, 2

SELECT count(*) FROM nation CROSS JOIN region

SELECT n_name, r_name FROM nation JOIN region ON n_regionkey = r_regionkey WHERE r_name = 'EUROPE' ORDER BY n_name

SELECT id, small FROM samples a JOIN (SELECT id, 1 AS one FROM samples) b USING (id) ORDER BY id

SELECT * FROM (SELECT id, flag FROM samples) a JOIN (SELECT id, small FROM samples) b USING (id) ORDER BY id

SELECT id FROM samples UNION SELECT small FROM samples ORDER BY 1

SELECT id FROM samples UNION ALL SELECT 100 ORDER BY 1 DESC

SELECT id FROM samples INTERSECT SELECT small FROM samples ORDER BY 1

SELECT id FROM samples EXCEPT SELECT small FROM samples ORDER BY 1

SELECT 1 UNION ALL SELECT 2.5 ORDER BY 1

WITH a AS (SELECT id FROM samples WHERE id < 4), b AS (SELECT id * 2 AS d FROM a) SELECT * FROM b ORDER BY d

WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 5) SELECT n FROM t ORDER BY n

SELECT (SELECT max(id) FROM samples), (SELECT name FROM samples WHERE id = 100)

SELECT (SELECT id FROM samples)

SELECT id, (SELECT count(*) FROM samples b WHERE b.id < a.id) FROM samples a ORDER BY id

SELECT id FROM samples a WHERE EXISTS (SELECT 1 FROM samples b WHERE b.small = a.id) ORDER BY id

SELECT id FROM samples WHERE id > ALL (SELECT small FROM samples WHERE small < 5) ORDER BY id

SELECT id FROM samples WHERE id = ANY (SELECT small FROM samples) ORDER BY id

SELECT id FROM samples ORDER BY id LIMIT 2

SELECT id FROM samples ORDER BY id OFFSET 2 LIMIT 2

SELECT id FROM samples ORDER BY id OFFSET 4 ROWS FETCH FIRST 1 ROW ONLY

-- refused
SELECT small FROM samples ORDER BY small FETCH FIRST 2 ROWS WITH TIES

SELECT CASE id WHEN 1 THEN 'one' WHEN 2 THEN 'two' END, CASE WHEN id > 3 THEN 1 ELSE 0.5 END FROM samples ORDER BY id

SELECT id AS "Mixed Case", id AS "select" FROM samples ORDER BY 1 LIMIT 1

SELECT ID, Name FROM Samples ORDER BY Id LIMIT 1

SELECT samples.id, s.id FROM samples JOIN samples s ON s.id = samples.id ORDER BY 1 LIMIT 2

SELECT missing FROM samples

SELECT id FROM samples GROUP BY flag

SELECT id FROM samples WHERE id = 'a'

SELECT id + 'a' FROM samples

SELECT nosuchfunction(1)

SELECT sum(name) FROM samples

SELECT a.id FROM samples a JOIN samples b ON a.id = b.id WHERE id = 1

SELECT 1 WHERE NULL

SELECT true AND NULL, false AND NULL, true OR NULL, NOT NULL

SELECT 1 IS NULL, NULL = NULL, NULL IS NOT DISTINCT FROM NULL

SELECT DISTINCT l_returnflag, l_linestatus FROM lineitem ORDER BY 1, 2

SELECT o_orderpriority, count(DISTINCT o_custkey), max(o_orderdate), min(o_totalprice) FROM orders GROUP BY o_orderpriority ORDER BY 1

SELECT c_mktsegment, avg(c_acctbal), sum(c_acctbal), max(c_acctbal) FROM customer GROUP BY c_mktsegment ORDER BY 1

SELECT n_regionkey, array_agg(n_name ORDER BY n_name) FROM nation GROUP BY n_regionkey ORDER BY n_regionkey

SELECT * FROM region ORDER BY r_regionkey

SELECT o_clerk, sum(o_totalprice) AS total, rank() OVER (ORDER BY sum(o_totalprice) DESC) FROM orders GROUP BY o_clerk ORDER BY total DESC

SELECT p_size, count(*) FILTER (WHERE p_retailprice > 1000), avg(p_retailprice) FROM part GROUP BY p_size HAVING count(*) > 30 ORDER BY p_size

-- refused
SELECT id, name FROM samples TABLESAMPLE BERNOULLI (100) ORDER BY id

SELECT min(name), max(name), min(day), max(day), min(flag), max(flag) FROM samples

SELECT id, t.x FROM samples CROSS JOIN LATERAL (SELECT samples.id * 10 AS x) AS t ORDER BY id

SELECT y, sum(id) FROM (SELECT year(day) AS y, id FROM samples) GROUP BY y ORDER BY y NULLS FIRST

SELECT a.* FROM samples a WHERE a.id = 1

SELECT id, id FROM samples ORDER BY 1 LIMIT 1
