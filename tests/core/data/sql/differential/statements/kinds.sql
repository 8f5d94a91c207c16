SELECT DECIMAL '2.345', DECIMAL '12345678901234567.89' - 1

SELECT 1 <> ALL (VALUES 1, 2), 3 <> ALL (VALUES 1, 2)

SELECT none_match(ARRAY[1, NULL], x -> x > 5), all_match(ARRAY[1, NULL], x -> x > 0), any_match(ARRAY[1, NULL], x -> x > 5)

SELECT array_remove(ARRAY[1, NULL, 2], 2), array_intersect(ARRAY[1, NULL, 2], ARRAY[NULL, 2]), arrays_overlap(ARRAY[1, NULL], ARRAY[2]), arrays_overlap(ARRAY[1, NULL], ARRAY[1])

-- refused
SELECT 1 NOT IN (2, NULL), 1 NOT IN (1, NULL), ARRAY[1] IN (ARRAY[NULL])

SELECT ARRAY[1, NULL] = ARRAY[1, NULL], ARRAY[1, 2] = ARRAY[1, 2], ARRAY[NULL] = ARRAY[1]

SELECT ROW(1, NULL) = ROW(1, NULL), ROW(1, 2) = ROW(1, 2), ROW(1, NULL) = ROW(2, NULL)

-- refused
SELECT MAP(ARRAY['a', 'b'], ARRAY[1, 2]) = MAP(ARRAY['b', 'a'], ARRAY[2, 1])

-- refused
SELECT x FROM (VALUES 1, 1, 2) AS t(x) ORDER BY x FETCH FIRST 1 ROW WITH TIES

-- refused
SELECT cast(TIMESTAMP '2026-03-01 23:30:00 America/New_York' AS date)

-- refused
SELECT TIMESTAMP '2026-10-25 02:30:00 Europe/Berlin'

-- refused
SELECT date_diff('hour', TIMESTAMP '2026-03-28 12:00:00 Europe/Berlin', TIMESTAMP '2026-03-29 12:00:00 Europe/Berlin')

SELECT cast(1e21 AS decimal(38,2)), round(1.005e0, 2), round(2.5e0), round(-2.5e0)

SELECT avg(x) FROM (VALUES DECIMAL '12345678901234567.89', DECIMAL '12345678901234567.88') AS t(x)

SELECT try_cast('1_000' AS bigint), try_cast('nan' AS double), try_cast('NaN' AS double), try_cast('yes' AS boolean), try_cast('infinity' AS double), try_cast('Infinity' AS double), try_cast('2024/02/29' AS date)

SELECT max_by(x, y), min_by(x, y) FROM (VALUES (1, NULL), (NULL, 3), (2, 2)) AS t(x, y)

SELECT count_if(x > 5) FROM (VALUES 1) AS t(x) WHERE false

-- refused
SELECT skewness(x), kurtosis(x) FROM (VALUES 1e0, 2e0, 5e0, 9e0) AS t(x)

SELECT sequence(5, 1), sequence(1, 5)

SELECT trim(chr(9) || 'a' || chr(10)), length(trim(chr(9) || 'a '))

SELECT replace('abc', '', 'x'), replace('abc', '')

-- refused
SELECT regexp_like('a' || chr(10), '^a$'), regexp_replace('abc', '', '-'), regexp_extract_all('abc', 'x*')

-- refused
SELECT regexp_extract('ab', '(a)|(x)', 2), regexp_extract('ab', 'x')

-- refused
SELECT json_extract_scalar('{"a": 1.0}', '$.a'), json_extract_scalar('{"a": 1e2}', '$.a'), json_extract('{"a": [1, {"b": 2}]}', '$.a[1].b'), json_extract_scalar('{"a b": 1}', '$["a b"]')

-- refused
SELECT cast(INTERVAL '1' DAY AS varchar), cast(INTERVAL '3' MONTH AS varchar)

SELECT date_format(TIMESTAMP '2024-01-01 00:00:00.999999', '%f'), date_format(TIMESTAMP '2024-01-01 00:00:59.999900', '%s')

SELECT id FROM samples WHERE day = '2024-02-28'

SELECT round(2147483647, -3)

SELECT avg(price), avg(price / 3), sum(price) / count(*) FROM samples

SELECT cast('1' AS integer) + '1'

SELECT 1 = '1'

SELECT coalesce(1, 'a')

SELECT CASE WHEN true THEN 1 ELSE 'a' END

SELECT 1 UNION SELECT 'a'

SELECT upper(1)

SELECT length(1)

SELECT sum('1')

SELECT 5 / 2.0, 1.0 / 3.0, DECIMAL '1' / DECIMAL '3', 10 / DECIMAL '4.00'

SELECT DECIMAL '99999999999999999999999999999999999999' + 1

SELECT 9223372036854775807 + 1

-- refused
SELECT power(2, 3), exp(1), ln(2), sqrt(2), cbrt(27), truncate(1.9), truncate(-1.9e0), mod(-7, 3), width_bucket(5, 1, 10, 3)

-- refused
SELECT bit_count(7, 64), bitwise_and(5, 3), bitwise_or(5, 3), bitwise_xor(5, 3), bitwise_not(5), bitwise_left_shift(1, 3)

SELECT array_intersect(ARRAY[3, 1, 2], ARRAY[2, 3]), array_intersect(ARRAY[1, 2, 3, 4], ARRAY[4, 2, 1])

SELECT array_except(ARRAY[3, 1, 2, 3, 1], ARRAY[2]), array_union(ARRAY[3, 1, NULL], ARRAY[2, 3, NULL]), array_except(ARRAY[NULL, 1], ARRAY[2]), array_except(ARRAY[NULL, 1], ARRAY[NULL])

SELECT array_remove(ARRAY[1, NULL], cast(NULL AS integer))

SELECT DECIMAL '0.5', DECIMAL '-12.30', DECIMAL '7', DECIMAL '007', cast('2.6' AS decimal), DECIMAL '.5', cast(2.6 AS decimal)

-- refused
SELECT TIMESTAMP '2024-05-01 10:00:00 UTC', TIMESTAMP '2024-05-01 10:00:00 Z'

SELECT round(2147483647, -3)

SELECT round(12345, -2), round(9223372036854775807, -3)

SELECT round(1234.567, -2), round(1234.567e0, -2), round(DECIMAL '12345678901234567.89', 1)

SELECT 1 UNION SELECT 'a'

SELECT avg(x) FROM (VALUES DECIMAL '74.86', DECIMAL '74.87') AS t(x)

SELECT avg(x), avg(-x) FROM (VALUES DECIMAL '0.01', DECIMAL '0.02') AS t(x)

SELECT avg(DISTINCT price), avg(price) FILTER (WHERE id < 0), avg(id), avg(cast(id AS decimal(10))) FROM samples

SELECT avg(price / 3), avg(price * 1.5) FROM samples

SELECT (1, 2) = (1, 3), (1, NULL) = (2, 1), (1, 2) IN ((1, 2), (3, NULL)), (1, 2) IN ((3, NULL)), (1, 2) <> (1, NULL)

SELECT numbers = numbers, tags = tags, ARRAY[1] = numbers FROM samples ORDER BY id

SELECT coalesce(cast(NULL AS integer), 2.5), CASE WHEN true THEN 1 ELSE 2.5 END, nullif(1, 2)

SELECT id FROM samples WHERE day BETWEEN '2024-01-01' AND '2024-12-31'

SELECT x FROM UNNEST(sequence(1, 3)) AS t(x)

SELECT x FROM UNNEST(sequence(DATE '2024-01-01', DATE '2024-01-03', INTERVAL '1' DAY)) AS t(x)

SELECT sequence(DATE '2024-01-01', DATE '2024-01-03')

SELECT DATE '2024-01-01' + 1

SELECT cast('1.5' AS decimal(10,2)), try_cast('x' AS decimal(5,1)), cast(' 2024-01-05 ' AS date), cast('1e3' AS double), cast('t' AS boolean), cast('1' AS boolean)

SELECT cast(1.5 AS double), cast(true AS integer), cast(1 AS boolean), cast(DATE '2024-01-01' AS timestamp), cast(TIMESTAMP '2024-01-01 01:02:03' AS date), cast(1 AS double), cast(2.55 AS decimal(3,1))

SELECT 7 / 2, 7e0 / 2, 7 / 2e0, 7.0 / 2, -7 / 2, 7 / 3.5, cast(7 AS bigint) / 2, cast(7 AS smallint) / cast(2 AS smallint)

SELECT id, big / small, price / rate, ratio / 0, ratio / nullif(id, 1) FROM samples WHERE small <> 0 AND rate <> 0 ORDER BY id

SELECT json_extract_scalar('{"p": 19.99, "q": 5, "r": "x", "s": true}', '$.p'), json_extract_scalar('{"p": 19.99, "q": 5}', '$.q'), json_extract_scalar('{"p": [1.5, 2]}', '$.p[0]')

SELECT count(*) FROM samples WHERE name <> ALL (SELECT name FROM samples WHERE id > 100)

SELECT * FROM samples ORDER BY id LIMIT 2

SELECT s.*, s.id AS again FROM samples AS s ORDER BY s.id OFFSET 1 LIMIT 2

(SELECT id FROM samples ORDER BY id LIMIT 3)

WITH a AS (SELECT id FROM samples) SELECT a.id, b.id FROM a JOIN a AS b ON a.id = b.id ORDER BY 1

SELECT id FROM samples UNION ALL SELECT id FROM samples ORDER BY id LIMIT 3

VALUES (1, 'x'), (2, 'y')

SELECT 1 AS limit, 2 AS offset

SELECT id /* a -- comment */ , -- b
 small FROM samples ORDER BY id FETCH FIRST 2 ROWS ONLY

SELECT abs(-2147483648) AS x

SELECT abs(-2147483647) AS a, -(-2147483647) AS b, abs(-9223372036854775807) AS c

SELECT -(-2147483648) AS x

SELECT lpad('x', -1, 'a') AS x

SELECT rpad('x', y, 'a') AS x FROM (VALUES 2, 0, -1) AS t(y)

SELECT lpad('x', 3, 'ab') AS a, rpad('xyz', 2, 'a') AS b, lpad(cast(NULL AS varchar), -1, 'a') AS c

SELECT sequence(1, 5, 0) AS x

SELECT sequence(1, 5, -1) AS x

SELECT sequence(x, 1, 1) AS y FROM (VALUES 1, 3) AS t(x)

SELECT sequence(1, 10001) AS x

SELECT sequence(3, 3) AS a, sequence(3, 1) AS b, sequence(1, 6, 2) AS c, sequence(cast(NULL AS bigint), 3) AS d

SELECT sequence(DATE '2026-01-01', DATE '2026-01-03', INTERVAL '0' DAY) AS x

SELECT sequence(DATE '2026-01-03', DATE '2026-01-01', INTERVAL '1' DAY) AS x

SELECT repeat('x', 10001) AS x

SELECT lag(x, -1) OVER (ORDER BY x) AS y FROM (VALUES 1, 2) AS t(x)

SELECT lead(x, y) OVER (ORDER BY x) AS y FROM (VALUES (1, 1), (2, -1)) AS t(x, y)

SELECT lag(x, cast(NULL AS bigint)) OVER (ORDER BY x) AS y FROM (VALUES 1, 2) AS t(x)

SELECT lag(x, y, 9) OVER (ORDER BY x) AS y FROM (VALUES (1, 1), (2, 0), (3, 2)) AS t(x, y)

SELECT nth_value(x, 0) OVER (ORDER BY x) AS y FROM (VALUES 1, 2) AS t(x)

SELECT split_part('a,b', ',', 0) AS x

SELECT split_part('a,b', ',', 3) AS a, split_part('a,b', ',', 2) AS b

SELECT regexp_extract('a', '(a)', 5) AS x

SELECT sign(-0e0) AS a, sign(-2.5) AS b, sign(-3) AS c, sign(nan()) AS d
