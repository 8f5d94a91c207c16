SELECT length('Ünïcode ☃'), upper('grün'), lower('ÀÉ'), reverse('abc'), length('')

SELECT substr('hello', 2), substr('hello', 2, 3), substr('hello', -3), substr('hello', -3, 2), substring('hello' FROM 2 FOR 2)

SELECT substr('hello', 0), substr('hello', 10), substr('hello', 2, 100)

SELECT trim('  a  '), ltrim('  a'), rtrim('a  '), trim(BOTH 'x' FROM 'xxaxx'), trim(LEADING 'x' FROM 'xxa')

SELECT lpad('a', 3, 'x'), rpad('a', 3, 'xy'), lpad('abc', 2, 'x')

SELECT concat('a', 'b', 'c'), 'a' || 'b', 'a' || cast(NULL AS varchar), concat('a', cast(NULL AS varchar))

-- refused
SELECT concat_ws(',', 'a', NULL, 'b'), concat_ws('-', ARRAY['x', 'y'])

SELECT replace('banana', 'an'), replace('banana', 'an', 'AN'), translate('abcd', 'ab', 'AB'), repeat('ab', 3)

-- refused
SELECT split('a,b,,c', ','), split('a,b,c', ',', 2), split_part('a,b,c', ',', 2), split_part('a,b,c', ',', 5)

-- refused
SELECT strpos('high', 'ig'), strpos('abcabc', 'c', 2), position('b' IN 'abc'), strpos('abc', 'x')

-- refused
SELECT starts_with('abc', 'ab'), chr(65), codepoint('A'), levenshtein_distance('kitten', 'sitting'), hamming_distance('abc', 'abd')

SELECT id, upper(name), length(name), split(name, ',') FROM samples ORDER BY id

SELECT id FROM samples WHERE name LIKE '%t_e%' ORDER BY id

SELECT 'a_b' LIKE 'a\_b' ESCAPE '\', 'axb' LIKE 'a\_b' ESCAPE '\', 'ABC' LIKE 'abc'

SELECT regexp_like('1a 2b 14m', '\d+b'), regexp_like('abc', '^b'), regexp_like('abc', 'b')

SELECT regexp_extract('1a 2b 14m', '\d+'), regexp_extract('1a 2b 14m', '(\d+)([a-z]+)', 2), regexp_extract('abc', '\d')

SELECT regexp_extract_all('1a 2b 14m', '\d+'), regexp_extract_all('1a 2b 14m', '(\d+)([a-z]+)', 2)

SELECT regexp_replace('1a 2b 14m', '\d+[ab] '), regexp_replace('1a 2b 14m', '(\d+)([ab]) ', '3c$2 ')

SELECT regexp_replace('fun stuff.', '[a-z]', 'X'), regexp_replace('new york', '(\w)(\w*)', '$2$1')

-- refused
SELECT regexp_replace('a.b.c', '\.', '$0$0'), regexp_replace('a b', '(?<first>a)', '${first}!')

SELECT regexp_replace('price', 'p', '\$')

-- refused
SELECT regexp_replace('new york', '(\w)(\w*)', x -> upper(x[1]) || lower(x[2]))

-- refused
SELECT regexp_split('1a 2b 14m', '\s*[a-z]+\s*'), regexp_count('1a 2b 14m', '\d'), regexp_position('1a 2b', '\d', 2)

SELECT id, regexp_replace(name, '[^a-zA-Z]', '') FROM samples ORDER BY id

SELECT to_utf8('abc'), from_utf8(X'616263'), to_hex(X'00FF'), from_hex('616263'), to_base64(X'616263'), from_base64('YWJj')

SELECT md5(to_utf8('abc')), sha1(to_utf8('abc')), sha256(to_utf8('abc'))

SELECT to_hex(md5(to_utf8('abc'))), to_hex(sha256(bytes)) FROM samples WHERE id < 3 ORDER BY id

-- refused
SELECT xxhash64(to_utf8('abc'))

-- refused
SELECT crc32(to_utf8('abc'))

SELECT id, bytes, length(bytes) FROM samples ORDER BY id

-- refused
SELECT url_extract_host('https://example.com:8080/a/b?x=1#f'), url_extract_path('https://example.com/a/b?x=1'), url_extract_parameter('https://example.com/?x=1&y=2', 'y')

-- refused
SELECT url_encode('a b&c'), url_decode('a+b%26c')

-- refused
SELECT normalize('Å', NFD) = 'Å', soundex('Robert')

-- refused
SELECT format('%s has %d items for %.2f', 'cart', 3, 19.99e0)

-- refused
SELECT format('%05d|%-5s|%x', 42, 'ab', 255)

SELECT listagg(name, '; ') WITHIN GROUP (ORDER BY name) FROM samples WHERE name <> ''

SELECT array_join(array_agg(name ORDER BY name), '|') FROM samples

SELECT 'a' < 'B', 'a' = 'A', 'ä' > 'z', '' = ''

SELECT name FROM samples ORDER BY name

SELECT name FROM samples ORDER BY name DESC NULLS FIRST

SELECT name FROM samples ORDER BY name NULLS FIRST

SELECT name FROM samples ORDER BY name DESC

SELECT id, name IS NULL, name IS NOT NULL, name IS DISTINCT FROM '' FROM samples ORDER BY id

SELECT 'It''s', U&'\2603', '' || 'x'

-- refused
SELECT cast('abc' AS varchar(2)), cast('a' AS char(3)) || 'b', length(cast('a' AS char(3)))

-- refused
SELECT word_stem('running')

-- refused
SELECT split_to_map('a=1,b=2', ',', '=')

SELECT uuid() IS NOT NULL, length(cast(uuid() AS varchar))

SELECT upper(substr(c_name, 1, 1)) || lower(substr(c_name, 2)) FROM customer ORDER BY c_custkey LIMIT 3

SELECT p_brand, count(*) FROM part WHERE regexp_like(p_name, '^(green|lime)') GROUP BY p_brand ORDER BY p_brand

SELECT max(length(c_comment)), min(length(c_comment)) FROM customer

SELECT from_utf8(bytes) FROM samples WHERE id IN (1, 4, 6) ORDER BY id
