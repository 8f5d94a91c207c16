SELECT DATE '2024-02-29' + INTERVAL '1' YEAR, DATE '2024-01-31' + INTERVAL '1' MONTH, DATE '2024-03-01' - INTERVAL '1' DAY

SELECT DATE '2024-01-01' - DATE '2023-12-25'

SELECT date_add('day', 3, DATE '2024-02-28'), date_add('month', 1, DATE '2024-01-31'), date_add('hour', 5, TIMESTAMP '2024-01-01 22:00:00')

SELECT date_diff('day', DATE '2024-01-01', DATE '2024-03-01'), date_diff('month', DATE '2024-01-31', DATE '2024-03-01'), date_diff('year', DATE '2020-06-01', DATE '2024-05-31')

SELECT date_diff('hour', TIMESTAMP '2024-01-01 00:59:59', TIMESTAMP '2024-01-01 02:00:00'), date_diff('second', TIMESTAMP '2024-01-01 00:00:00', TIMESTAMP '2024-01-02 00:00:00'), date_diff('week', DATE '2024-01-01', DATE '2024-01-14')

SELECT date_trunc('month', DATE '2024-02-29'), date_trunc('year', TIMESTAMP '2024-02-29 12:34:56'), date_trunc('week', DATE '2024-02-29'), date_trunc('hour', TIMESTAMP '2024-02-29 12:34:56'), date_trunc('quarter', DATE '2024-05-05')

SELECT extract(YEAR FROM DATE '2024-02-29'), extract(MONTH FROM DATE '2024-02-29'), extract(DAY FROM DATE '2024-02-29'), extract(QUARTER FROM DATE '2024-02-29')

SELECT extract(DOW FROM DATE '2024-03-03'), extract(DAY_OF_WEEK FROM DATE '2024-03-04'), extract(DOY FROM DATE '2024-03-03'), extract(WEEK FROM DATE '2024-12-30'), extract(YEAR_OF_WEEK FROM DATE '2024-12-30')

SELECT day_of_week(DATE '2024-03-03'), dow(DATE '2024-03-09'), day_of_year(DATE '2024-03-03'), day_of_month(DATE '2024-03-03'), week(DATE '2021-01-03'), year_of_week(DATE '2021-01-03'), yow(DATE '2021-01-03')

SELECT year(DATE '2024-02-29'), month(TIMESTAMP '2024-02-29 01:02:03'), hour(TIMESTAMP '2024-02-29 01:02:03'), minute(TIMESTAMP '2024-02-29 01:02:03'), second(TIMESTAMP '2024-02-29 01:02:03.9'), millisecond(TIMESTAMP '2024-02-29 01:02:03.456'), quarter(DATE '2024-05-01')

SELECT last_day_of_month(DATE '2024-02-01'), date('2024-02-29'), cast('2024-02-29' AS date), cast(TIMESTAMP '2024-02-29 23:00:00' AS date)

SELECT id, day, wall, moment FROM samples ORDER BY id

SELECT id, year(day), month(day), day(day), day_of_week(day) FROM samples ORDER BY id

SELECT id, hour(wall), minute(wall), second(wall), date_trunc('day', wall) FROM samples ORDER BY id

SELECT id, cast(wall AS date), cast(day AS timestamp), day + INTERVAL '2' MONTH FROM samples ORDER BY id

SELECT id, date_trunc('month', moment), cast(moment AS date), hour(moment) FROM samples ORDER BY id

-- refused
SELECT id, moment AT TIME ZONE 'America/New_York' FROM samples ORDER BY id

SELECT id, cast(moment AT TIME ZONE 'America/New_York' AS timestamp), hour(moment AT TIME ZONE 'Asia/Tokyo') FROM samples ORDER BY id

SELECT TIMESTAMP '2024-01-01 12:00:00 UTC' AT TIME ZONE 'Europe/Berlin' = TIMESTAMP '2024-01-01 12:00:00 UTC'

-- refused
SELECT cast(TIMESTAMP '2024-07-01 12:00:00 UTC' AT TIME ZONE 'Europe/Berlin' AS varchar)

SELECT TIMESTAMP '2024-01-01 12:00:00', TIMESTAMP '2024-01-01 12:00:00.123456', TIMESTAMP '2024-01-01 12:00:00 UTC'

-- refused
SELECT with_timezone(TIMESTAMP '2024-01-01 12:00:00', 'America/New_York')

SELECT from_unixtime(1704067200), from_unixtime(0.5e0), to_unixtime(TIMESTAMP '2024-01-01 00:00:00')

-- refused
SELECT from_iso8601_date('2024-02-29'), from_iso8601_timestamp('2024-02-29T12:34:56Z'), to_iso8601(DATE '2024-02-29'), to_iso8601(TIMESTAMP '2024-02-29 12:34:56')

SELECT date_format(TIMESTAMP '2024-02-09 03:04:05', '%Y-%m-%d %H:%i:%s'), date_format(TIMESTAMP '2024-02-09 03:04:05', '%b %e, %Y %l:%i %p'), date_format(DATE '2024-02-09', '%a %W %M %y %j')

SELECT date_parse('2024-02-09 03:04', '%Y-%m-%d %H:%i'), date_parse('09/02/24', '%d/%m/%y')

-- refused
SELECT format_datetime(TIMESTAMP '2024-02-09 03:04:05', 'yyyy-MM-dd HH:mm')

-- refused
SELECT parse_datetime('2024-02-09 03:04', 'yyyy-MM-dd HH:mm')

SELECT DATE '2024-01-01' < DATE '2024-01-02', TIMESTAMP '2024-01-01 00:00:00' = DATE '2024-01-01', DATE '2024-01-01' BETWEEN DATE '2023-01-01' AND DATE '2025-01-01'

SELECT current_date = cast(current_timestamp AS date), now() >= current_timestamp, localtimestamp IS NOT NULL

SELECT INTERVAL '90' SECOND, INTERVAL '1' DAY, INTERVAL '2' HOUR + INTERVAL '30' MINUTE

SELECT TIMESTAMP '2024-01-01 00:00:00' + INTERVAL '36' HOUR, TIMESTAMP '2024-01-01 00:00:00' - INTERVAL '1' SECOND

SELECT TIMESTAMP '2024-01-02 00:00:00' - TIMESTAMP '2024-01-01 12:00:00'

SELECT cast('2024-02-30' AS date)

-- refused
SELECT try_cast('2024-02-30' AS date), try(cast('x' AS date)), try(1 / 0)

SELECT day, count(*) FROM samples GROUP BY day ORDER BY day

SELECT date_trunc('year', o_orderdate) AS y, count(*), sum(o_totalprice) FROM orders GROUP BY 1 ORDER BY 1

SELECT year(l_shipdate), month(l_shipdate), count(*) FROM lineitem GROUP BY 1, 2 ORDER BY 1, 2 LIMIT 10

SELECT max(date_diff('day', l_shipdate, l_receiptdate)), min(date_diff('day', l_shipdate, l_receiptdate)), avg(date_diff('day', l_shipdate, l_receiptdate)) FROM lineitem

SELECT extract(DOW FROM o_orderdate) AS d, count(*) FROM orders GROUP BY 1 ORDER BY 1

SELECT TIME '12:34:56', cast(TIMESTAMP '2024-01-01 12:34:56' AS time), hour(TIME '12:34:56')

-- refused
SELECT timezone_hour(TIMESTAMP '2024-01-01 12:00:00 +05:30'), timezone_minute(TIMESTAMP '2024-01-01 12:00:00 +05:30')

SELECT date_add('week', -1, DATE '2024-01-10'), date_add('year', 1, DATE '2024-02-29'), date_add('quarter', 1, DATE '2024-01-31')

SELECT cast(DATE '2024-01-01' AS timestamp), cast('2024-01-01 10:00:00' AS timestamp), cast(TIMESTAMP '2024-01-01 10:00:00' AS varchar)

SELECT id, wall + INTERVAL '1' MONTH, moment + INTERVAL '1' DAY FROM samples ORDER BY id

SELECT sequence(DATE '2024-01-01', DATE '2024-01-03', INTERVAL '1' DAY)

SELECT d FROM UNNEST(sequence(DATE '2024-01-01', DATE '2024-03-01', INTERVAL '1' MONTH)) AS t(d) ORDER BY d
