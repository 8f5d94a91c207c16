SELECT nan() <= nan(), nan() = nan(), nan() <> nan(), nan() > 1e0, 1e0 < nan(), nan() IS DISTINCT FROM nan()

SELECT id FROM samples WHERE ratio > 1e0 ORDER BY id

SELECT id FROM samples WHERE ratio >= 0 ORDER BY id

SELECT id FROM samples WHERE ratio <> ratio OR ratio = 0.1e0 ORDER BY id

SELECT count(*) FROM samples WHERE 0 <= ratio AND NOT ratio < 5e0

SELECT ceil(id), floor(small), ceiling(big), sign(nan()), sign(-2.5e0), sign(price) FROM samples ORDER BY id

SELECT concat_ws(',', 'a', NULL, 'b'), replace('abc', CAST(NULL AS varchar)), to_base(255, 16)

SELECT json_array_length('{}'), json_size('{"a": 1}', '$.b'), json_array_length('[1, 2]')

SELECT array_join(ARRAY[CAST(NULL AS varchar)], ','), array_join(tags, '-') FROM samples ORDER BY id

SELECT reverse(tags), reverse(name) FROM samples ORDER BY id

SELECT cast(DECIMAL '0.000000001' AS varchar), cast(rate AS varchar) FROM samples ORDER BY id

SELECT try_cast(wall AS timestamp), cast(wall AS timestamp with time zone) FROM samples ORDER BY id

SELECT bitwise_xor_agg(small), round(small, 1) FROM samples GROUP BY small ORDER BY small

SELECT trim_array(ARRAY[1], 2)

WITH t AS (SELECT name AS n, numbers AS a FROM samples) SELECT n, transform(a, x -> x * 2), a[1] FROM t WHERE cardinality(a) > 0 ORDER BY n

SELECT x.a, x.b FROM (SELECT pair AS x FROM samples) AS t ORDER BY x.a

SELECT o_orderstatus AS s, count(*) AS n FROM orders GROUP BY s

SELECT o_orderkey AS k FROM orders WHERE k = 4
