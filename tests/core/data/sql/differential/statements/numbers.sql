SELECT 7 / 2, -7 / 2, 7 % 3, -7 % 3, 7 / -2

SELECT 1 / 0

SELECT 1 % 0

SELECT 1.0 / 0

SELECT 1e0 / 0

SELECT 7.0 / 2, 7 / 2.0, 1.00 / 3, 2.5 / 0.3

SELECT 10.0 % 3, -7.5 % 2

SELECT id, price / rate FROM samples WHERE rate <> 0 ORDER BY id

SELECT id, price / 3, price / 3.0, price / 3e0 FROM samples ORDER BY id

SELECT id, price * rate, price + rate, price - rate FROM samples ORDER BY id

SELECT id, big / small FROM samples WHERE small <> 0 ORDER BY id

SELECT id, big / nullif(small, 0) AS q FROM samples ORDER BY id

SELECT id, small / 2, big / 4, id / 2e0 FROM samples ORDER BY id

SELECT avg(price), avg(rate), avg(big), avg(small), avg(ratio) FROM samples WHERE id < 6

SELECT avg(id), avg(single) FROM samples WHERE id < 5

SELECT sum(price), sum(rate), sum(big), sum(small), sum(id) FROM samples

SELECT sum(ratio) FROM samples WHERE id < 3

SELECT sum(id) / count(*), sum(id) * 1.0 / count(*), sum(price) / count(*) FROM samples

SELECT count(*), count(price), count(DISTINCT flag), min(price), max(price) FROM samples

SELECT round(2.5), round(-2.5), round(3.5), round(2.5e0), round(-2.5e0), round(0.5e0)

SELECT round(123.456, 1), round(123.456e0, 2), round(123.456, -1), round(1234, -2)

SELECT id, round(price, 1), round(rate, 2), round(ratio, 1) FROM samples WHERE id < 6 ORDER BY id

SELECT ceil(1.2), floor(-1.2), ceiling(1.2e0), floor(1e0), truncate(1.9), truncate(-1.9e0)

SELECT abs(-5), abs(-5.5), sign(-3), sign(2.5e0), mod(7, 3), mod(-7, 3)

SELECT power(2, 10), pow(2, 0.5e0), sqrt(2), cbrt(27), exp(1), ln(2), log2(8), log10(1000), log(2, 8)

SELECT greatest(1, 2, 3), least(1.5, 2), greatest('a', 'b'), least(DATE '2024-01-01', DATE '2023-01-01')

SELECT greatest(1, NULL), least(NULL, 2)

SELECT cast('3' AS integer), cast('-12' AS bigint), cast('3.5' AS double), cast('3.55' AS decimal(5, 1))

SELECT cast('3.5' AS integer)

SELECT cast('x' AS integer)

SELECT try_cast('3.5' AS integer), try_cast('x' AS double), try_cast('12' AS integer), try_cast('2024-13-01' AS date)

SELECT cast(3.5 AS integer), cast(2.5 AS integer), cast(-2.5 AS integer), cast(2.5e0 AS integer), cast(3.5e0 AS bigint), cast(-3.5e0 AS bigint)

SELECT cast(1 AS varchar), cast(1.50 AS varchar), cast(true AS varchar), cast(DATE '2024-01-02' AS varchar)

-- refused
SELECT cast(1e0 AS varchar), cast(0.1e0 AS varchar), cast(1e10 AS varchar), cast(1.5e-7 AS varchar)

SELECT id, cast(price AS varchar), cast(rate AS varchar), cast(big AS varchar) FROM samples ORDER BY id

SELECT cast(true AS integer), cast(0 AS boolean), cast('true' AS boolean), cast('f' AS boolean)

SELECT cast(123.456 AS decimal(10, 2)), cast(123.455 AS decimal(10, 2)), cast(1 AS decimal(3, 1))

SELECT cast(1000 AS decimal(3, 1))

SELECT cast(300 AS tinyint)

SELECT 2147483647 + 1

SELECT 9223372036854775807 + 1

SELECT cast(2147483647 AS bigint) + 1, 2147483648, 1.5, 1e3

SELECT bitwise_and(12, 10), bitwise_or(12, 10), bitwise_xor(12, 10), bitwise_not(5), bit_count(7, 64)

-- refused
SELECT width_bucket(5.3e0, 0e0, 10e0, 5), pi(), e()

SELECT is_nan(nan()), is_finite(1e0), is_infinite(infinity())

SELECT id, ratio FROM samples ORDER BY ratio

SELECT id, ratio FROM samples ORDER BY ratio DESC

SELECT id, ratio > 1 FROM samples WHERE id < 6 ORDER BY id

SELECT max(ratio), min(ratio) FROM samples WHERE id < 6

-- refused
SELECT to_base(255, 16), from_base('ff', 16), degrees(pi()), radians(180)

SELECT sin(0), cos(0), tan(0), asin(1), acos(1), atan(1), atan2(1, 1), sinh(0), cosh(0), tanh(0)

SELECT stddev(id), stddev_pop(id), variance(id), var_pop(id), stddev_samp(id), var_samp(id) FROM samples

-- refused
SELECT corr(id, 1e0 * small), covar_pop(1e0 * id, small), covar_samp(id, 1e0 * small), regr_slope(1e0 * id, small), regr_intercept(1e0 * id, small) FROM samples

SELECT geometric_mean(id) FROM samples

-- refused
SELECT skewness(id), kurtosis(id) FROM samples

SELECT id, cast(ratio AS decimal(10, 2)) FROM samples WHERE id IN (1, 2, 4) ORDER BY id

SELECT sum(l_quantity) / 7, avg(l_extendedprice) * 2, sum(l_discount) / count(*) FROM lineitem

SELECT l_linenumber, sum(l_extendedprice) / sum(l_quantity) AS unit FROM lineitem GROUP BY l_linenumber ORDER BY l_linenumber

SELECT sum(o_custkey) % 7, sum(o_shippriority) / 3, count(*) / 4 FROM orders

SELECT DISTINCT l_linenumber / 2 FROM lineitem ORDER BY 1

SELECT id FROM samples WHERE price / 2 > 3.75 ORDER BY id

SELECT 5 BETWEEN 1 AND 10, 5 NOT BETWEEN 1 AND 10, NULL BETWEEN 1 AND 2

SELECT 1 = 1.0, 1 = 1e0, 0.1 + 0.2 = 0.3, 0.1e0 + 0.2e0 = 0.3e0

SELECT -price, -small, -ratio FROM samples WHERE id = 1

SELECT coalesce(NULL, 1, 2), nullif(1, 1), nullif(1, 2), if(1 > 2, 'a'), coalesce(NULL, 1.5)

-- refused
SELECT format_number(1234567), human_readable_seconds(3661)

-- refused
SELECT typeof(1), typeof(1.5), typeof('a'), typeof(1e0), typeof(DATE '2024-01-01')

-- refused
SELECT rand() < 1, random(10) < 10

SELECT cast('12.5' AS real), cast(1 AS smallint), cast(5 AS tinyint) + cast(5 AS tinyint)

SELECT id, small + 1, small * 2, small / 2 FROM samples ORDER BY id

-- refused
SELECT checksum(id) FROM samples

SELECT approx_distinct(o_custkey) > 0, approx_percentile(o_custkey, 0.5) FROM orders WHERE o_orderkey = 4

SELECT approx_distinct(flag) FROM samples

SELECT approx_percentile(o_orderkey, 0.5) BETWEEN 29000 AND 31000 FROM orders

-- refused
SELECT approx_most_frequent(2, flag, 10) FROM samples

SELECT bool_and(flag), bool_or(flag), every(flag) FROM samples

SELECT bitwise_and_agg(id), bitwise_or_agg(id) FROM samples

SELECT count_if(flag), count(*) FILTER (WHERE flag), sum(id) FILTER (WHERE id > 3) FROM samples

-- refused
SELECT max(id, 2), min(id, 2), max_by(name, id), min_by(name, id) FROM samples

-- refused
SELECT max_by(name, id, 2) FROM samples

SELECT arbitrary(1), any_value(2) FROM samples
