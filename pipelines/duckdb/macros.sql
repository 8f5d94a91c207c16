-- Functions of Trino in DuckDB's terms. A query process defines those that a statement names.
-- HAVING takes x.a in a lambda for a column of a table, and struct_extract(x, 'a') for what it is.
-- cast_to_type(value, example) is given only the type of its example, which is not computed. The type of trino_widen has
-- room for a quotient of decimals, which may have more digits before the point than they have.

trino_divide(a, b) AS list_transform([{'a': a, 'b': b, 'like': a - a + b - b}], lambda x: CASE WHEN typeof(struct_extract(x, 'like')) IN ('DOUBLE', 'FLOAT') THEN cast_to_type(struct_extract(x, 'a') / struct_extract(x, 'b'), struct_extract(x, 'like')) WHEN struct_extract(x, 'b') = 0 THEN error('Division by zero') WHEN typeof(struct_extract(x, 'like')) LIKE 'DECIMAL%' THEN trino_fit_quotient(trino_divide_decimals(struct_extract(x, 'a'), struct_extract(x, 'b'), trino_decimal_scale(struct_extract(x, 'like'))), trino_widen(struct_extract(x, 'like'))) ELSE cast_to_type(struct_extract(x, 'a') // struct_extract(x, 'b'), struct_extract(x, 'like')) END)[1]

trino_divide_by_number(a, b) AS list_transform([{'a': a, 'like': a - a + b - b}], lambda x: CASE WHEN typeof(struct_extract(x, 'like')) LIKE '%INT' OR typeof(struct_extract(x, 'like')) = 'INTEGER' THEN cast_to_type(struct_extract(x, 'a') // b, struct_extract(x, 'like')) WHEN typeof(struct_extract(x, 'like')) LIKE 'DECIMAL%' THEN trino_fit_quotient(trino_divide_decimals(struct_extract(x, 'a'), b, trino_decimal_scale(struct_extract(x, 'like'))), trino_widen(struct_extract(x, 'like'))) ELSE cast_to_type(struct_extract(x, 'a') / b, struct_extract(x, 'like')) END)[1]

trino_remainder(a, b) AS CASE WHEN b = 0 AND typeof(a - a + b - b) NOT IN ('DOUBLE', 'FLOAT') THEN error('Division by zero') ELSE a % b END

trino_widen(example) AS example * CAST(1 AS TINYINT) * CAST(1 AS TINYINT) * CAST(1 AS TINYINT) * CAST(1 AS TINYINT) * CAST(1 AS TINYINT) * CAST(1 AS TINYINT) * CAST(1 AS TINYINT) * CAST(1 AS TINYINT) * CAST(1 AS TINYINT) * CAST(1 AS TINYINT) * CAST(1 AS TINYINT) * CAST(1 AS TINYINT)

trino_fit_quotient(t, example) AS cast_to_type(CASE WHEN length(ltrim(replace(replace(t, '-', ''), '.', ''), '0')) > CAST(regexp_extract(typeof(example), '(\d+),', 1) AS INTEGER) THEN error('unsupported: a quotient of decimals with more digits than ' || typeof(example)) ELSE t END, example)

trino_like(value, example) AS cast_to_type(value, example)

trino_cast_tinyint(x) AS CASE WHEN typeof(x) IN ('DOUBLE', 'FLOAT') THEN CAST(round(TRY_CAST(x AS DOUBLE)) AS TINYINT) WHEN typeof(x) = 'VARCHAR' AND NOT regexp_full_match(CAST(x AS VARCHAR), '[+-]?[0-9]+') THEN error('Cannot cast ''' || CAST(x AS VARCHAR) || ''' to TINYINT') ELSE CAST(x AS TINYINT) END

trino_cast_smallint(x) AS CASE WHEN typeof(x) IN ('DOUBLE', 'FLOAT') THEN CAST(round(TRY_CAST(x AS DOUBLE)) AS SMALLINT) WHEN typeof(x) = 'VARCHAR' AND NOT regexp_full_match(CAST(x AS VARCHAR), '[+-]?[0-9]+') THEN error('Cannot cast ''' || CAST(x AS VARCHAR) || ''' to SMALLINT') ELSE CAST(x AS SMALLINT) END

trino_cast_integer(x) AS CASE WHEN typeof(x) IN ('DOUBLE', 'FLOAT') THEN CAST(round(TRY_CAST(x AS DOUBLE)) AS INTEGER) WHEN typeof(x) = 'VARCHAR' AND NOT regexp_full_match(CAST(x AS VARCHAR), '[+-]?[0-9]+') THEN error('Cannot cast ''' || CAST(x AS VARCHAR) || ''' to INT') ELSE CAST(x AS INTEGER) END

trino_cast_bigint(x) AS CASE WHEN typeof(x) IN ('DOUBLE', 'FLOAT') THEN CAST(round(TRY_CAST(x AS DOUBLE)) AS BIGINT) WHEN typeof(x) = 'VARCHAR' AND NOT regexp_full_match(CAST(x AS VARCHAR), '[+-]?[0-9]+') THEN error('Cannot cast ''' || CAST(x AS VARCHAR) || ''' to BIGINT') ELSE CAST(x AS BIGINT) END

trino_try_cast_tinyint(x) AS CASE WHEN typeof(x) IN ('DOUBLE', 'FLOAT') THEN TRY_CAST(round(TRY_CAST(x AS DOUBLE)) AS TINYINT) WHEN typeof(x) = 'VARCHAR' AND NOT regexp_full_match(CAST(x AS VARCHAR), '[+-]?[0-9]+') THEN NULL ELSE TRY_CAST(x AS TINYINT) END

trino_try_cast_smallint(x) AS CASE WHEN typeof(x) IN ('DOUBLE', 'FLOAT') THEN TRY_CAST(round(TRY_CAST(x AS DOUBLE)) AS SMALLINT) WHEN typeof(x) = 'VARCHAR' AND NOT regexp_full_match(CAST(x AS VARCHAR), '[+-]?[0-9]+') THEN NULL ELSE TRY_CAST(x AS SMALLINT) END

trino_try_cast_integer(x) AS CASE WHEN typeof(x) IN ('DOUBLE', 'FLOAT') THEN TRY_CAST(round(TRY_CAST(x AS DOUBLE)) AS INTEGER) WHEN typeof(x) = 'VARCHAR' AND NOT regexp_full_match(CAST(x AS VARCHAR), '[+-]?[0-9]+') THEN NULL ELSE TRY_CAST(x AS INTEGER) END

trino_try_cast_bigint(x) AS CASE WHEN typeof(x) IN ('DOUBLE', 'FLOAT') THEN TRY_CAST(round(TRY_CAST(x AS DOUBLE)) AS BIGINT) WHEN typeof(x) = 'VARCHAR' AND NOT regexp_full_match(CAST(x AS VARCHAR), '[+-]?[0-9]+') THEN NULL ELSE TRY_CAST(x AS BIGINT) END

trino_cast_varchar(x) AS CASE WHEN typeof(x) IN ('DOUBLE', 'FLOAT', 'TIMESTAMP WITH TIME ZONE', 'INTERVAL') THEN error('unsupported: CAST of ' || lower(typeof(x)) || ' AS varchar') WHEN typeof(x) LIKE 'DECIMAL%' THEN regexp_replace(CAST(x AS VARCHAR), '^(-?)[.]', '\10.') ELSE CAST(x AS VARCHAR) END

trino_greatest(a, b) AS CASE WHEN a IS NULL OR b IS NULL THEN NULL ELSE greatest(a, b) END

trino_least(a, b) AS CASE WHEN a IS NULL OR b IS NULL THEN NULL ELSE least(a, b) END

trino_log(base, x) AS trino_ln(x) / trino_ln(base)

trino_length(x) AS CASE typeof(x) WHEN 'VARCHAR' THEN length(CAST(x AS VARCHAR)) WHEN 'BLOB' THEN octet_length(CAST(x AS BLOB)) WHEN '"NULL"' THEN NULL ELSE error('No function matches length(' || lower(typeof(x)) || ')') END

trino_substr(s, p) AS CASE WHEN p = 0 OR -p > length(s) THEN '' ELSE substr(s, CAST(p AS BIGINT)) END

trino_substr_part(s, p, n) AS CASE WHEN n IS NULL THEN NULL WHEN p = 0 OR -p > length(s) THEN '' ELSE substr(s, CAST(p AS BIGINT), CAST(n AS BIGINT)) END

trino_split_part(s, d, n) AS CASE WHEN s IS NULL OR d IS NULL THEN NULL WHEN n < 1 THEN error('Index must be greater than zero') ELSE string_split(s, d)[n] END

trino_regexp_extract(s, p, g) AS CASE WHEN regexp_matches(s, p) THEN regexp_extract(s, p, g) END

trino_repeat(x, n) AS CASE WHEN n < 0 THEN error('count argument of repeat function must be greater than or equal to 0') WHEN n > 10000 THEN error('count argument of repeat function must be less than or equal to 10000') ELSE list_transform(range(CAST(n AS BIGINT)), lambda i: x) END

trino_array_distinct(a) AS list_filter(a, lambda x, i: CASE WHEN x IS NULL THEN len(list_filter(a[1:i], lambda y: y IS NULL)) = 1 ELSE list_position(a, x) = i END)

trino_array_max(a) AS CASE WHEN len(a) > list_count(a) THEN NULL ELSE list_max(a) END

trino_array_min(a) AS CASE WHEN len(a) > list_count(a) THEN NULL ELSE list_min(a) END

trino_array_union(a, b) AS CASE WHEN a IS NULL OR b IS NULL THEN NULL ELSE list_filter(list_concat(a, b), lambda x, i: CASE WHEN x IS NULL THEN len(list_filter(list_concat(a, b)[1:i], lambda y: y IS NULL)) = 1 ELSE list_position(list_concat(a, b), x) = i END) END

trino_array_intersect(a, b) AS CASE WHEN len(a) >= len(b) THEN trino_keep_common(a, b) ELSE trino_keep_common(b, a) END

trino_array_except(a, b) AS CASE WHEN a IS NULL OR b IS NULL THEN NULL ELSE list_filter(a, lambda x, i: CASE WHEN x IS NULL THEN len(b) = list_count(b) AND len(list_filter(a[1:i], lambda y: y IS NULL)) = 1 ELSE NOT list_contains(b, x) AND list_position(a, x) = i END) END

trino_array_position(a, x) AS CASE WHEN a IS NULL OR x IS NULL THEN NULL ELSE CAST(coalesce(list_position(a, x), 0) AS BIGINT) END

trino_array_remove(a, x) AS CASE WHEN x IS NOT NULL THEN list_filter(a, lambda y: y IS DISTINCT FROM x) END

trino_arrays_overlap(a, b) AS CASE WHEN list_has_any(a, b) THEN true WHEN len(a) = 0 OR len(b) = 0 THEN false WHEN len(a) > list_count(a) OR len(b) > list_count(b) THEN NULL ELSE list_has_any(a, b) END

trino_contains(a, x) AS CASE WHEN list_contains(a, x) THEN true WHEN len(a) > list_count(a) THEN NULL ELSE list_contains(a, x) END

trino_trim_array(a, n) AS CASE WHEN n < 0 OR n > len(a) THEN error('size must not exceed array cardinality ' || len(a) || ': ' || n) ELSE a[1:len(a) - n] END

trino_slice(a, p, n) AS CASE WHEN p = 0 THEN error('SQL array indices start at 1') WHEN n < 0 THEN error('length must be greater than or equal to 0') WHEN p > 0 THEN a[p:p + n - 1] ELSE a[len(a) + p + 1:len(a) + p + n] END

trino_json_extract(j, p) AS CASE WHEN json_valid(CAST(j AS VARCHAR)) THEN json_extract(j, p) END

trino_json_scalar(j, p) AS CASE WHEN json_type(trino_valid_json(j), p) = 'DOUBLE' AND NOT regexp_matches(CAST(j AS VARCHAR), regexp_escape(json_extract_string(trino_valid_json(j), p)) || '([^0-9eE.]|$)') THEN error('unsupported: json_extract_scalar of a number written as 1.10 or 1e2') WHEN json_type(trino_valid_json(j), p) NOT IN ('OBJECT', 'ARRAY') THEN json_extract_string(trino_valid_json(j), p) END

trino_valid_json(j) AS CASE WHEN json_valid(CAST(j AS VARCHAR)) THEN CAST(j AS VARCHAR) END

trino_map_agg(k, v) AS map_from_entries(list(struct_pack(k := k, v := v)))

trino_json_size(j, p) AS CASE WHEN json_type(j, p) IS NULL THEN NULL ELSE CASE json_type(j, p) WHEN 'ARRAY' THEN CAST(json_array_length(j, p) AS BIGINT) WHEN 'OBJECT' THEN CAST(len(json_keys(j, p)) AS BIGINT) ELSE 0 END END

trino_cast_timestamp(x) AS make_timestamp(CAST(floor((epoch_us(CAST(x AS TIMESTAMP)) + 500) / 1000.0) AS BIGINT) * 1000)

trino_trim(s) AS trim(s, chr(9) || chr(10) || chr(11) || chr(12) || chr(13) || chr(32) || chr(28) || chr(29) || chr(30) || chr(31) || chr(5760) || chr(8192) || chr(8193) || chr(8194) || chr(8195) || chr(8196) || chr(8197) || chr(8198) || chr(8200) || chr(8201) || chr(8202) || chr(8232) || chr(8233) || chr(8287) || chr(12288))

trino_ltrim(s) AS ltrim(s, chr(9) || chr(10) || chr(11) || chr(12) || chr(13) || chr(32) || chr(28) || chr(29) || chr(30) || chr(31) || chr(5760) || chr(8192) || chr(8193) || chr(8194) || chr(8195) || chr(8196) || chr(8197) || chr(8198) || chr(8200) || chr(8201) || chr(8202) || chr(8232) || chr(8233) || chr(8287) || chr(12288))

trino_rtrim(s) AS rtrim(s, chr(9) || chr(10) || chr(11) || chr(12) || chr(13) || chr(32) || chr(28) || chr(29) || chr(30) || chr(31) || chr(5760) || chr(8192) || chr(8193) || chr(8194) || chr(8195) || chr(8196) || chr(8197) || chr(8198) || chr(8200) || chr(8201) || chr(8202) || chr(8232) || chr(8233) || chr(8287) || chr(12288))

trino_replace(s, a, b) AS CASE WHEN a IS NULL THEN NULL WHEN a <> '' THEN replace(s, a, b) WHEN s = '' THEN b ELSE b || array_to_string(string_split(s, ''), b) || b END

trino_any_match(m) AS CASE WHEN list_contains(m, true) THEN true WHEN len(m) > list_count(m) THEN NULL ELSE list_contains(m, true) END

trino_all_match(m) AS CASE WHEN list_contains(m, false) THEN false WHEN len(m) > list_count(m) THEN NULL ELSE NOT list_contains(m, false) END

trino_array_equal(a, b) AS CASE WHEN len(a) <> len(b) THEN false WHEN contains(rtrim(typeof(a), '[]0123456789'), '[') OR typeof(a) LIKE '%[][]' OR typeof(a) LIKE 'STRUCT%' OR typeof(a) LIKE 'MAP%' THEN error('unsupported: = of arrays of arrays, rows or maps') ELSE trino_all_match(list_transform(range(1, len(a) + 1), lambda i: a[i] = b[i])) END

trino_check_date(x) AS CASE WHEN typeof(x) = 'VARCHAR' AND NOT regexp_full_match(CAST(x AS VARCHAR), '\s*[+-]?[0-9]{4,}-[0-9]{1,2}-[0-9]{1,2}\s*') THEN error('Cannot cast ''' || CAST(x AS VARCHAR) || ''' to DATE') ELSE x END

trino_check_double(x) AS CASE WHEN typeof(x) = 'VARCHAR' AND NOT regexp_full_match(CAST(x AS VARCHAR), '\s*[+-]?(NaN|Infinity|([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?)\s*') THEN error('Cannot cast ''' || CAST(x AS VARCHAR) || ''' to DOUBLE') ELSE x END

trino_check_boolean(x) AS CASE WHEN typeof(x) = 'VARCHAR' AND NOT regexp_full_match(lower(CAST(x AS VARCHAR)), 't|f|true|false|1|0') THEN error('Cannot cast ''' || CAST(x AS VARCHAR) || ''' to BOOLEAN') ELSE x END

trino_check_decimal(x) AS CASE WHEN typeof(x) = 'VARCHAR' AND NOT regexp_full_match(CAST(x AS VARCHAR), '[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?') THEN error('Cannot cast ''' || CAST(x AS VARCHAR) || ''' to DECIMAL') ELSE x END

trino_filter_date(x) AS CASE WHEN typeof(x) <> 'VARCHAR' OR regexp_full_match(CAST(x AS VARCHAR), '\s*[+-]?[0-9]{4,}-[0-9]{1,2}-[0-9]{1,2}\s*') THEN x END

trino_filter_double(x) AS CASE WHEN typeof(x) <> 'VARCHAR' OR regexp_full_match(CAST(x AS VARCHAR), '\s*[+-]?(NaN|Infinity|([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?)\s*') THEN x END

trino_filter_boolean(x) AS CASE WHEN typeof(x) <> 'VARCHAR' OR regexp_full_match(lower(CAST(x AS VARCHAR)), 't|f|true|false|1|0') THEN x END

trino_filter_decimal(x) AS CASE WHEN typeof(x) <> 'VARCHAR' OR regexp_full_match(CAST(x AS VARCHAR), '[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?') THEN x END

trino_date_format(t, f) AS strftime(trino_cast_timestamp(t), f)

trino_regexp_like(s, p) AS CASE WHEN contains(p, '$') AND ends_with(s, chr(10)) THEN error('unsupported: $ of a pattern before the last end of a line') ELSE regexp_matches(s, p) END

trino_decimal_average(total, number, example) AS CASE WHEN number > 0 THEN cast_to_type(trino_round_quotient(CAST(total AS VARCHAR), number), example) END

trino_round_quotient(t, n) AS CASE WHEN contains(t, '.') THEN trino_write_decimal(trino_divide_half_up(CAST(replace(t, '.', '') AS HUGEINT), CAST(n AS HUGEINT)), length(t) - strpos(t, '.')) ELSE CAST(trino_divide_half_up(CAST(t AS HUGEINT), CAST(n AS HUGEINT)) AS VARCHAR) END

trino_divide_half_up(a, b) AS CASE WHEN a < 0 THEN -((-a * 2 + b) // (2 * b)) ELSE (a * 2 + b) // (2 * b) END

trino_write_decimal(q, scale) AS CASE WHEN q < 0 THEN '-' ELSE '' END || left(trino_pad_digits(q, scale), -scale) || '.' || right(trino_pad_digits(q, scale), scale)

trino_pad_digits(q, scale) AS lpad(CAST(abs(q) AS VARCHAR), CAST(greatest(scale + 1, length(CAST(abs(q) AS VARCHAR))) AS INTEGER), '0')

trino_keep_common(a, b) AS list_filter(a, lambda x, i: CASE WHEN x IS NULL THEN len(b) > list_count(b) AND len(list_filter(a[1:i], lambda y: y IS NULL)) = 1 ELSE list_contains(b, x) AND list_position(a, x) = i END)

trino_divide_decimals(a, b, scale) AS list_transform([{'n': trino_unscale(a) * trino_power_of_ten(scale - trino_decimal_scale(a) + trino_decimal_scale(b)), 'd': trino_unscale(b)}], lambda q: trino_write_decimal_or_whole(CASE WHEN (struct_extract(q, 'n') < 0) <> (struct_extract(q, 'd') < 0) THEN -trino_divide_positive(abs(struct_extract(q, 'n')), abs(struct_extract(q, 'd'))) ELSE trino_divide_positive(abs(struct_extract(q, 'n')), abs(struct_extract(q, 'd'))) END, scale))[1]

trino_decimal_scale(x) AS CAST(coalesce(nullif(regexp_extract(typeof(x), ',([0-9]+)', 1), ''), '0') AS INTEGER)

trino_unscale(x) AS CAST(replace(CAST(x AS VARCHAR), '.', '') AS HUGEINT)

trino_power_of_ten(n) AS CAST('1' || repeat('0', n) AS HUGEINT)

trino_divide_positive(n, d) AS n // d + CASE WHEN n % d >= d - n % d THEN 1 ELSE 0 END

trino_write_decimal_or_whole(q, scale) AS CASE WHEN scale = 0 THEN CAST(q AS VARCHAR) ELSE trino_write_decimal(q, scale) END

trino_round_whole(x, n) AS CASE WHEN typeof(x) IN ('DOUBLE', 'FLOAT') THEN cast_to_type(round(x, n), x) ELSE cast_to_type(round(CAST(x AS DECIMAL(38, 10)), n), x) END

trino_ceil(x) AS cast_to_type(ceil(x), round(x))

trino_floor(x) AS cast_to_type(floor(x), round(x))

trino_json_array_length(j) AS CASE WHEN json_type(trino_valid_json(j)) = 'ARRAY' THEN CAST(json_array_length(j) AS BIGINT) END

trino_to_base(x, b) AS lower(to_base(CAST(x AS BIGINT), CAST(b AS INTEGER)))

trino_try_cast_timestamp(x) AS make_timestamp(CAST(floor((epoch_us(TRY_CAST(x AS TIMESTAMP)) + 500) / 1000.0) AS BIGINT) * 1000)

trino_array_join(a, s) AS CASE WHEN a IS NOT NULL THEN coalesce(array_to_string(a, s), '') END

trino_sign(x) AS cast_to_type(CASE WHEN isnan(TRY_CAST(x AS DOUBLE)) THEN CAST('nan' AS DOUBLE) WHEN x = 0 THEN TRY_CAST(x AS DOUBLE) ELSE sign(x) END, round(x))

trino_cast_moment(x) AS make_timestamptz(CAST(floor((epoch_us(CAST(x AS TIMESTAMPTZ)) + 500) / 1000.0) AS BIGINT) * 1000)

trino_try_cast_moment(x) AS make_timestamptz(CAST(floor((epoch_us(TRY_CAST(x AS TIMESTAMPTZ)) + 500) / 1000.0) AS BIGINT) * 1000)

trino_map_size(m) AS CAST(len(map_keys(m)) AS BIGINT)

trino_array_element(a, i) AS CASE WHEN a IS NULL OR i IS NULL THEN NULL WHEN i = 0 THEN error('SQL array indices start at 1') WHEN i < 0 THEN error('Array subscript is negative: ' || i) WHEN i > len(a) THEN error('Array subscript must be less than or equal to array length: ' || i || ' > ' || len(a)) ELSE a[i] END

trino_map_element(m, k) AS CASE WHEN m IS NULL OR k IS NULL THEN NULL WHEN map_contains(m, k) THEN m[k] ELSE error('Key not present in map: ' || CAST(k AS VARCHAR)) END

trino_list_field(a, n) AS list_transform(a, lambda x: struct_extract_at(x, n))

trino_cast_real(x) AS CASE WHEN typeof(x) = 'DOUBLE' AND isfinite(TRY_CAST(x AS DOUBLE)) AND abs(TRY_CAST(x AS DOUBLE)) >= 3.4028235677973366e38 THEN CAST(CASE WHEN TRY_CAST(x AS DOUBLE) > 0 THEN 'Infinity' ELSE '-Infinity' END AS FLOAT) ELSE CAST(trino_check_double(x) AS FLOAT) END

trino_try_cast_real(x) AS CASE WHEN typeof(x) = 'DOUBLE' AND isfinite(TRY_CAST(x AS DOUBLE)) AND abs(TRY_CAST(x AS DOUBLE)) >= 3.4028235677973366e38 THEN CAST(CASE WHEN TRY_CAST(x AS DOUBLE) > 0 THEN 'Infinity' ELSE '-Infinity' END AS FLOAT) ELSE TRY_CAST(trino_filter_double(x) AS FLOAT) END

trino_cbrt(x) AS CASE WHEN CAST(x AS DOUBLE) = 0 OR NOT isfinite(CAST(x AS DOUBLE)) THEN CAST(x AS DOUBLE) ELSE cbrt(x) - (cbrt(x) * cbrt(x) * cbrt(x) - x) / (3 * cbrt(x) * cbrt(x)) END

trino_sqrt(x) AS CASE WHEN x < 0 THEN CAST('nan' AS DOUBLE) ELSE sqrt(x) END

trino_acos(x) AS CASE WHEN abs(CAST(x AS DOUBLE)) > 1 THEN CAST('nan' AS DOUBLE) ELSE acos(x) END

trino_asin(x) AS CASE WHEN abs(CAST(x AS DOUBLE)) > 1 THEN CAST('nan' AS DOUBLE) ELSE asin(x) END

trino_array_sort(a) AS cast_to_type(list_sort(a), a)

trino_element_at(a, i) AS CASE WHEN i = 0 THEN error('SQL array indices start at 1') ELSE list_extract(a, i) END

trino_ln(x) AS CASE WHEN x < 0 THEN CAST('nan' AS DOUBLE) WHEN x = 0 THEN CAST('-Infinity' AS DOUBLE) ELSE ln(x) END

trino_timestamp_text(x, d) AS CASE WHEN d = 0 THEN split_part(CAST(x AS VARCHAR), '.', 1) ELSE split_part(CAST(x AS VARCHAR), '.', 1) || '.' || rpad(split_part(CAST(x AS VARCHAR), '.', 2), d, '0') END

trino_round_timestamp(x, unit) AS make_timestamp(CAST(floor((epoch_us(x) + unit / 2) / unit) AS BIGINT) * unit)

trino_check_clock(x) AS CASE WHEN typeof(x) <> 'VARCHAR' THEN x WHEN regexp_matches(CAST(x AS VARCHAR), '(^|[ T])\s*24:') THEN error('Value cannot be cast to a time: ' || CAST(x AS VARCHAR)) WHEN regexp_matches(CAST(x AS VARCHAR), '\.[0-9]{7}') THEN error('unsupported: more than 6 digits of a second, as in ' || CAST(x AS VARCHAR)) ELSE x END

trino_filter_clock(x) AS CASE WHEN typeof(x) <> 'VARCHAR' THEN x WHEN regexp_matches(CAST(x AS VARCHAR), '(^|[ T])\s*24:') THEN NULL WHEN regexp_matches(CAST(x AS VARCHAR), '\.[0-9]{7}') THEN error('unsupported: more than 6 digits of a second, as in ' || CAST(x AS VARCHAR)) ELSE x END

trino_raise(message) AS error(message)

trino_lpad(s, n, p) AS CASE WHEN s IS NULL OR p IS NULL THEN NULL WHEN n < 0 THEN error('Target length must be in the range [0..2147483647]') ELSE lpad(s, CAST(n AS INTEGER), p) END

trino_rpad(s, n, p) AS CASE WHEN s IS NULL OR p IS NULL THEN NULL WHEN n < 0 THEN error('Target length must be in the range [0..2147483647]') ELSE rpad(s, CAST(n AS INTEGER), p) END

trino_offset(n, least) AS CASE WHEN n IS NULL THEN error('Offset must not be null') WHEN n < least THEN error('Offset must be at least ' || least) ELSE n END

trino_sequence(a) AS CASE WHEN len(a) = 0 THEN error('step must not be zero, and lead from start to stop') WHEN len(a) > 10000 THEN error('result of sequence function must not have more than 10000 entries') ELSE a END
