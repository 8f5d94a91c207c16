-- Functions of Trino in DuckDB's terms. A query process defines those that a statement names.
-- cast_to_type(value, example) is given only the type of its example, which is not computed.

trino_divide(a, b) AS CASE WHEN b = 0 AND typeof(a - a + b - b) NOT IN ('DOUBLE', 'FLOAT') THEN error('Division by zero') ELSE cast_to_type(a / b, a - a + b - b) END

trino_divide_by_number(a, b) AS cast_to_type(a / b, a - a + b - b)

trino_remainder(a, b) AS CASE WHEN b = 0 AND typeof(a - a + b - b) NOT IN ('DOUBLE', 'FLOAT') THEN error('Division by zero') ELSE a % b END

trino_like(value, example) AS cast_to_type(value, example)

trino_cast_tinyint(x) AS CASE WHEN typeof(x) IN ('DOUBLE', 'FLOAT') THEN CAST(round(TRY_CAST(x AS DOUBLE)) AS TINYINT) WHEN typeof(x) = 'VARCHAR' AND NOT regexp_full_match(CAST(x AS VARCHAR), '[+-]?[0-9]+') THEN error('Cannot cast ''' || CAST(x AS VARCHAR) || ''' to TINYINT') ELSE CAST(x AS TINYINT) END

trino_cast_smallint(x) AS CASE WHEN typeof(x) IN ('DOUBLE', 'FLOAT') THEN CAST(round(TRY_CAST(x AS DOUBLE)) AS SMALLINT) WHEN typeof(x) = 'VARCHAR' AND NOT regexp_full_match(CAST(x AS VARCHAR), '[+-]?[0-9]+') THEN error('Cannot cast ''' || CAST(x AS VARCHAR) || ''' to SMALLINT') ELSE CAST(x AS SMALLINT) END

trino_cast_integer(x) AS CASE WHEN typeof(x) IN ('DOUBLE', 'FLOAT') THEN CAST(round(TRY_CAST(x AS DOUBLE)) AS INTEGER) WHEN typeof(x) = 'VARCHAR' AND NOT regexp_full_match(CAST(x AS VARCHAR), '[+-]?[0-9]+') THEN error('Cannot cast ''' || CAST(x AS VARCHAR) || ''' to INT') ELSE CAST(x AS INTEGER) END

trino_cast_bigint(x) AS CASE WHEN typeof(x) IN ('DOUBLE', 'FLOAT') THEN CAST(round(TRY_CAST(x AS DOUBLE)) AS BIGINT) WHEN typeof(x) = 'VARCHAR' AND NOT regexp_full_match(CAST(x AS VARCHAR), '[+-]?[0-9]+') THEN error('Cannot cast ''' || CAST(x AS VARCHAR) || ''' to BIGINT') ELSE CAST(x AS BIGINT) END

trino_try_cast_tinyint(x) AS CASE WHEN typeof(x) IN ('DOUBLE', 'FLOAT') THEN TRY_CAST(round(TRY_CAST(x AS DOUBLE)) AS TINYINT) WHEN typeof(x) = 'VARCHAR' AND NOT regexp_full_match(CAST(x AS VARCHAR), '[+-]?[0-9]+') THEN NULL ELSE TRY_CAST(x AS TINYINT) END

trino_try_cast_smallint(x) AS CASE WHEN typeof(x) IN ('DOUBLE', 'FLOAT') THEN TRY_CAST(round(TRY_CAST(x AS DOUBLE)) AS SMALLINT) WHEN typeof(x) = 'VARCHAR' AND NOT regexp_full_match(CAST(x AS VARCHAR), '[+-]?[0-9]+') THEN NULL ELSE TRY_CAST(x AS SMALLINT) END

trino_try_cast_integer(x) AS CASE WHEN typeof(x) IN ('DOUBLE', 'FLOAT') THEN TRY_CAST(round(TRY_CAST(x AS DOUBLE)) AS INTEGER) WHEN typeof(x) = 'VARCHAR' AND NOT regexp_full_match(CAST(x AS VARCHAR), '[+-]?[0-9]+') THEN NULL ELSE TRY_CAST(x AS INTEGER) END

trino_try_cast_bigint(x) AS CASE WHEN typeof(x) IN ('DOUBLE', 'FLOAT') THEN TRY_CAST(round(TRY_CAST(x AS DOUBLE)) AS BIGINT) WHEN typeof(x) = 'VARCHAR' AND NOT regexp_full_match(CAST(x AS VARCHAR), '[+-]?[0-9]+') THEN NULL ELSE TRY_CAST(x AS BIGINT) END

trino_cast_varchar(x) AS CASE WHEN typeof(x) IN ('DOUBLE', 'FLOAT', 'TIMESTAMP WITH TIME ZONE') THEN error('unsupported: CAST of ' || lower(typeof(x)) || ' AS varchar') ELSE CAST(x AS VARCHAR) END

trino_greatest(a, b) AS CASE WHEN a IS NULL OR b IS NULL THEN NULL ELSE greatest(a, b) END

trino_least(a, b) AS CASE WHEN a IS NULL OR b IS NULL THEN NULL ELSE least(a, b) END

trino_log(base, x) AS ln(x) / ln(base)

trino_length(x) AS CASE typeof(x) WHEN 'VARCHAR' THEN length(CAST(x AS VARCHAR)) WHEN 'BLOB' THEN octet_length(CAST(x AS BLOB)) WHEN '"NULL"' THEN NULL ELSE error('No function matches length(' || lower(typeof(x)) || ')') END

trino_substr(s, p) AS CASE WHEN p = 0 OR -p > length(s) THEN '' ELSE substr(s, CAST(p AS BIGINT)) END

trino_substr_part(s, p, n) AS CASE WHEN p = 0 OR -p > length(s) THEN '' ELSE substr(s, CAST(p AS BIGINT), CAST(n AS BIGINT)) END

trino_split_part(s, d, n) AS string_split(s, d)[n]

trino_regexp_extract(s, p, g) AS CASE WHEN regexp_matches(s, p) THEN regexp_extract(s, p, g) END

trino_hamming(a, b) AS CAST(hamming(a, b) AS BIGINT)

trino_repeat(x, n) AS list_transform(range(CAST(n AS BIGINT)), lambda i: x)

trino_array_distinct(a) AS list_filter(a, lambda x, i: CASE WHEN x IS NULL THEN len(list_filter(a[1:i], lambda y: y IS NULL)) = 1 ELSE list_position(a, x) = i END)

trino_array_max(a) AS CASE WHEN len(a) > list_count(a) THEN NULL ELSE list_max(a) END

trino_array_min(a) AS CASE WHEN len(a) > list_count(a) THEN NULL ELSE list_min(a) END

trino_array_union(a, b) AS list_filter(list_concat(a, b), lambda x, i: CASE WHEN x IS NULL THEN len(list_filter(list_concat(a, b)[1:i], lambda y: y IS NULL)) = 1 ELSE list_position(list_concat(a, b), x) = i END)

trino_array_intersect(a, b) AS list_filter(a, lambda x, i: list_contains(b, x) AND list_position(a, x) = i)

trino_array_except(a, b) AS list_filter(a, lambda x, i: NOT list_contains(b, x) AND list_position(a, x) = i)

trino_array_position(a, x) AS CASE WHEN a IS NULL OR x IS NULL THEN NULL ELSE CAST(coalesce(list_position(a, x), 0) AS BIGINT) END

trino_array_remove(a, x) AS list_filter(a, lambda y: y IS DISTINCT FROM x)

trino_arrays_overlap(a, b) AS list_has_any(a, b)

trino_contains(a, x) AS CASE WHEN list_contains(a, x) THEN true WHEN len(a) > list_count(a) THEN NULL ELSE list_contains(a, x) END

trino_trim_array(a, n) AS a[1:len(a) - n]

trino_slice(a, p, n) AS CASE WHEN p > 0 THEN a[p:p + n - 1] ELSE a[len(a) + p + 1:len(a) + p + n] END

trino_json_extract(j, p) AS CASE WHEN json_valid(CAST(j AS VARCHAR)) THEN json_extract(j, p) END

trino_json_scalar(j, p) AS CASE WHEN json_valid(CAST(j AS VARCHAR)) AND json_type(j, p) NOT IN ('OBJECT', 'ARRAY') THEN json_extract_string(j, p) END

trino_map_agg(k, v) AS map_from_entries(list(struct_pack(k := k, v := v)))

trino_json_size(j, p) AS CASE json_type(j, p) WHEN 'ARRAY' THEN CAST(json_array_length(j, p) AS BIGINT) WHEN 'OBJECT' THEN CAST(len(json_keys(j, p)) AS BIGINT) ELSE 0 END

trino_cast_timestamp(x) AS make_timestamp(CAST(floor((epoch_us(CAST(x AS TIMESTAMP)) + 500) / 1000.0) AS BIGINT) * 1000)
