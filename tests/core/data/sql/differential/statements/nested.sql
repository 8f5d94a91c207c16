SELECT ARRAY[1, 2, 3], ARRAY['a', NULL], ARRAY[1, 2][1], cardinality(ARRAY[1, 2, 3])

SELECT element_at(ARRAY[1, 2], 3), element_at(ARRAY[1, 2], -1), element_at(ARRAY[1, 2], 1)

SELECT id, numbers, cardinality(numbers), element_at(numbers, 1), element_at(numbers, -1) FROM samples ORDER BY id

SELECT id, array_sort(numbers), array_distinct(tags), array_max(numbers), array_min(numbers) FROM samples ORDER BY id

SELECT array_sort(ARRAY[3, NULL, 1]), array_distinct(ARRAY[2, 1, 2, 3, 1]), array_position(ARRAY['a', 'b'], 'b'), array_remove(ARRAY[1, 2, 1], 1)

SELECT contains(ARRAY[1, 2], 2), contains(ARRAY[1, NULL], 3), array_union(ARRAY[1, 2], ARRAY[2, 3]), array_intersect(ARRAY[1, 2], ARRAY[2, 3]), array_except(ARRAY[1, 2], ARRAY[2, 3])

SELECT arrays_overlap(ARRAY[1, 2], ARRAY[2, 3]), ARRAY[1] || ARRAY[2], ARRAY[1] || 2, concat(ARRAY[1], ARRAY[2], ARRAY[3])

SELECT array_join(ARRAY[1, NULL, 3], ','), array_join(ARRAY[1, NULL, 3], ',', 'x'), array_join(ARRAY['a'], '-')

SELECT slice(ARRAY[1, 2, 3, 4], 2, 2), slice(ARRAY[1, 2, 3, 4], -2, 2), reverse(ARRAY[1, 2, 3]), flatten(ARRAY[ARRAY[1], ARRAY[2, 3]])

-- refused
SELECT sequence(1, 5), sequence(1, 10, 3), sequence(5, 1, -2), repeat(1, 3), shuffle(ARRAY[1])

SELECT filter(ARRAY[1, -2, 3], x -> x > 0), transform(ARRAY[1, 2], x -> x * 10), any_match(ARRAY[1, 2], x -> x > 1), all_match(ARRAY[1, 2], x -> x > 1), none_match(ARRAY[1, 2], x -> x > 5)

SELECT reduce(ARRAY[1, 2, 3], 0, (s, x) -> s + x, s -> s)

SELECT reduce(ARRAY[5, 20, 50], cast(0 AS bigint), (s, x) -> s + x, s -> s * 2)

-- refused
SELECT zip(ARRAY[1, 2], ARRAY['a', 'b']), zip_with(ARRAY[1, 2], ARRAY[3, 4], (x, y) -> x + y)

SELECT array_agg(id ORDER BY id DESC), array_agg(DISTINCT flag ORDER BY flag) FROM samples WHERE id < 5

SELECT array_agg(name ORDER BY id) FILTER (WHERE name <> '') FROM samples

SELECT array_agg(id) FROM samples WHERE id > 100

SELECT t.x, t.n FROM UNNEST(ARRAY['a', 'b']) WITH ORDINALITY AS t(x, n) ORDER BY t.n

SELECT s.id, t.number FROM samples s CROSS JOIN UNNEST(s.numbers) AS t(number) ORDER BY s.id, t.number

SELECT s.id, t.number, t.n FROM samples s CROSS JOIN UNNEST(s.numbers) WITH ORDINALITY AS t(number, n) ORDER BY s.id, t.n

SELECT s.id, t.number FROM samples s LEFT JOIN UNNEST(s.numbers) AS t(number) ON true ORDER BY s.id, t.number

SELECT a, b FROM UNNEST(ARRAY[1, 2, 3], ARRAY['x', 'y']) AS t(a, b) ORDER BY a

SELECT k, v FROM UNNEST(MAP(ARRAY['a', 'b'], ARRAY[1, 2])) AS t(k, v) ORDER BY k

SELECT s.id, k, v FROM samples s CROSS JOIN UNNEST(s.counts) AS t(k, v) ORDER BY s.id, k

SELECT MAP(ARRAY['a', 'b'], ARRAY[1, 2]), MAP(ARRAY['a'], ARRAY[1])['a'], element_at(MAP(ARRAY['a'], ARRAY[1]), 'x'), cardinality(MAP(ARRAY['a', 'b'], ARRAY[1, 2]))

SELECT map_keys(counts), map_values(counts), cardinality(counts) FROM samples WHERE id IN (1, 4) ORDER BY id

SELECT id, counts, element_at(counts, 'a') FROM samples ORDER BY id

SELECT map_agg(id, name) FROM samples WHERE id < 3

SELECT histogram(flag) FROM samples

-- refused
SELECT map_filter(MAP(ARRAY['a', 'b'], ARRAY[1, 2]), (k, v) -> v > 1), transform_values(MAP(ARRAY['a'], ARRAY[1]), (k, v) -> v + 1), map_concat(MAP(ARRAY['a'], ARRAY[1]), MAP(ARRAY['b'], ARRAY[2]))

-- refused
SELECT map_entries(MAP(ARRAY['a'], ARRAY[1])), map_from_entries(ARRAY[('a', 1)])

-- refused
SELECT multimap_agg(flag, id) FROM samples WHERE flag

SELECT id, pair, pair.a, pair.b FROM samples ORDER BY id

SELECT ROW(1, 'x'), cast(ROW(1, 'x') AS ROW(a bigint, b varchar)).b, ROW(1, 2) = ROW(1, 2)

SELECT (1, 'a') = (1, 'a'), (1, 2) < (1, 3), (1, 2) IN ((1, 2), (3, 4))

SELECT cast(ARRAY[1, 2] AS array(double)), cast(ARRAY['1'] AS array(bigint)), ARRAY[1, 2] = ARRAY[1, 2]

-- refused
SELECT ARRAY[1, 2] < ARRAY[1, 3]

SELECT json_extract('{"a": [1, 2]}', '$.a'), json_extract_scalar('{"a": {"b": "x"}}', '$.a.b'), json_extract_scalar('{"a": [1, 2]}', '$.a[1]'), json_extract_scalar('{"a": {}}', '$.a')

SELECT id, json_extract_scalar(document, '$.s'), json_extract_scalar(document, '$.n') FROM samples WHERE id <> 4 ORDER BY id

SELECT id, json_extract_scalar(document, '$.a.b[2].c'), json_extract_scalar(document, '$["a b"]') FROM samples WHERE id <> 4 ORDER BY id

SELECT json_extract_scalar('not json', '$.a'), json_extract('{"a": 1}', '$.b')

SELECT json_parse('{"b": 1, "a": [true, null]}'), json_format(json_parse('{"a":2}'))

-- refused
SELECT json_array_length('[1, 2, 3]'), json_array_contains('[1, 2]', 2), json_size('{"a": {"b": 1, "c": 2}}', '$.a'), is_json_scalar('1')

-- refused
SELECT json_value('{"a": 1}', 'lax $.a'), json_query('{"a": [1, 2]}', 'lax $.a'), json_exists('{"a": 1}', 'lax $.b')

-- refused
SELECT json_value('{"a": "12"}', 'lax $.a' RETURNING integer)

SELECT cast(json_parse('[1, 2]') AS array(bigint)), cast(json_parse('{"a": 1}') AS map(varchar, bigint)), cast(json_extract('{"a": 5}', '$.a') AS integer)

SELECT cast(ARRAY[1, 2] AS json), cast(MAP(ARRAY['a'], ARRAY[1]) AS json), cast('x' AS json)

-- refused
SELECT json_object('a' : 1, 'b' : 'x'), json_array(1, 'a', true)

-- refused
SELECT combinations(ARRAY[1, 2, 3], 2), ngrams(ARRAY['a', 'b', 'c'], 2)

-- refused
SELECT array_histogram(ARRAY[1, 1, 2])

-- refused
SELECT trim_array(ARRAY[1, 2, 3], 1), contains_sequence(ARRAY[1, 2, 3], ARRAY[2, 3])

SELECT cardinality(filter(numbers, x -> x > 1)), transform(tags, t -> upper(t)) FROM samples ORDER BY id

SELECT max(cardinality(numbers)) FROM samples
