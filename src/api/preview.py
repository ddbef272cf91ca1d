# SPDX-License-Identifier: Apache-2.0
# Shows a part of a table, inside the sandbox that has it. The server puts PATH, SHEET (bytes), OFFSET and LIMIT before
# this text, and reads one JSON object from stdout, which it does not trust.
import json
import os
import sys

COLUMNS, CELL, COUNTED = 200, 500, 2000000


def plain(value):
	if value is None or isinstance(value, (bool, str)):
		return value[:CELL] if isinstance(value, str) else value
	if isinstance(value, int) and abs(value) < 1 << 53:
		return value
	if isinstance(value, float):
		return value if value - value == 0 else str(value)
	return str(value)[:CELL]


def page(rows, names, total=None, types=None, **more):
	"""ROWS begin at the first wanted row and may go on after the last."""
	out = []
	for row in rows:
		if len(out) == LIMIT:
			break
		out.append([plain(v) for v in row[:COLUMNS]])
	columns = [{'name': plain(str(n)), 'type': types[i] if types else ''} for i, n in enumerate(names[:COLUMNS])]
	return dict(kind='table', columns=columns, rows=out, total=total, offset=OFFSET, **more)


def number(text):
	for kind in (int, float):
		try:
			return kind(text)
		except ValueError:
			pass
	return text


def skip(rows, n):
	for _ in range(n):
		if next(rows, None) is None:
			break
	return rows


def delimited(path, delimiter):
	import csv
	csv.field_size_limit(1 << 24)

	def rows():
		with open(path, encoding='utf-8-sig', errors='replace', newline='') as f:
			yield from csv.reader((line.replace('\0', '') for line in f), delimiter=delimiter)
	if delimiter == ',':
		with open(path, encoding='utf-8-sig', errors='replace') as f:
			line = f.readline(1 << 16)
		if line.count(';') > line.count(','):
			delimiter = ';'
	it = rows()
	names = next(it, [])
	total = sum(1 for _, row in zip(range(COUNTED), rows())) - 1
	found = [[number(v) for v in row] for _, row in zip(range(LIMIT), skip(it, OFFSET))]
	types = []
	for i in range(len(names)):
		kinds = {type(row[i]).__name__ for row in found if i < len(row) and row[i] != ''}
		types.append('int' if kinds == {'int'} else 'float' if kinds and kinds <= {'int', 'float'} else 'str')
	return page(found, names, max(total, 0) if total < COUNTED - 1 else None, types)


def parquet(path):
	import pyarrow.parquet
	f = pyarrow.parquet.ParquetFile(path)
	schema = f.schema_arrow
	names = schema.names[:COLUMNS]

	def rows():
		at = 0
		for group in range(f.num_row_groups):
			n = f.metadata.row_group(group).num_rows
			if at + n <= OFFSET:
				at += n
				continue
			for batch in f.iter_batches(batch_size=1000, row_groups=[group], columns=names):
				if at + batch.num_rows > OFFSET:
					part = batch.slice(max(OFFSET - at, 0), LIMIT)
					lists = [c.to_pylist() for c in part.columns]
					yield from zip(*lists)
				at += batch.num_rows
	return page(([*row] for row in rows()), names, f.metadata.num_rows, [str(t) for t in schema.types[:COLUMNS]])


def excel(path):
	import openpyxl
	book = openpyxl.load_workbook(path, read_only=True, data_only=True)
	sheet = book[SHEET.decode()] if SHEET and SHEET.decode() in book.sheetnames else book[book.sheetnames[0]]
	it = sheet.iter_rows(values_only=True)
	names = ['' if v is None else v for v in next(it, ())]
	total = sheet.max_row - 1 if sheet.max_row else None
	return page(([*row] for row in skip(it, OFFSET)), names, total, sheets=book.sheetnames[:COLUMNS], sheet=sheet.title)


def records(path):
	if path.endswith('.json'):
		with open(path, encoding='utf-8') as f:
			found = json.loads(f.read(1 << 25))
		if not isinstance(found, list):
			raise ValueError('its JSON is no list of objects')
		total, found = len(found), found[OFFSET:OFFSET + LIMIT]
	else:
		with open(path, encoding='utf-8') as f:
			lines = skip(iter(f), OFFSET)
			found = [json.loads(line) for _, line in zip(range(LIMIT), lines) if line.strip()]
		total = None
	names = list(dict.fromkeys(k for r in found if isinstance(r, dict) for k in r)) or ['value']
	return page([[r.get(n) for n in names] if isinstance(r, dict) else [r] for r in found], names, total)


def main():
	path = os.fsdecode(PATH)
	suffix = os.path.splitext(path)[1].lower()
	readers = {'.csv': lambda p: delimited(p, ','), '.tsv': lambda p: delimited(p, '\t'), '.tab': lambda p: delimited(p, '\t'),
		'.parquet': parquet, '.pq': parquet, '.xlsx': excel, '.xlsm': excel, '.jsonl': records, '.ndjson': records, '.json': records}
	if suffix not in readers:
		return {'error': 'Tables are CSV, TSV, Parquet, Excel (xlsx) and JSON lines.'}
	try:
		return readers[suffix](path)
	except ImportError as e:
		return {'error': 'The image has no %s, which reads such files.' % e.name}
	except Exception as e:
		return {'error': ('%s: %s' % (type(e).__name__, e))[:CELL]}


sys.stdout.write(json.dumps(main()))
