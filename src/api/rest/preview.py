# SPDX-License-Identifier: Apache-2.0
# Shows a part of a table, inside the sandbox that has it. The server puts PATH, SHEET (bytes), OFFSET, LIMIT, ENCODING
# (nothing else is wanted) and charset.py before this text, and reads one JSON object from stdout, which it does not trust.
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


ENCODING_BYTES = 1 << 22


def encoding_of(path):
	"""(what open() needs, members of the answer about it). A text that nothing can tell is shown with replaced bytes."""
	with open(path, 'rb') as f:
		data = f.read(ENCODING_BYTES)
	found = None if is_utf8(data, len(data) == ENCODING_BYTES) else charset_of(data)
	return (found[0], {'encoding': found[0], 'sure': found[1]}) if found else ('utf-8-sig', {})


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
	encoding, told = encoding_of(path)

	def rows():
		with open(path, encoding=encoding, errors='replace', newline='') as f:
			yield from csv.reader((line.replace('\0', '') for line in f), delimiter=delimiter)
	if delimiter == ',':
		with open(path, encoding=encoding, errors='replace') as f:
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
	return page(found, names, max(total, 0) if total < COUNTED - 1 else None, types, **told)


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
	encoding, told = encoding_of(path)
	if path.endswith('.json'):
		with open(path, encoding=encoding) as f:
			found = json.loads(f.read(1 << 25))
		if not isinstance(found, list):
			raise ValueError('its JSON is no list of objects')
		total, found = len(found), found[OFFSET:OFFSET + LIMIT]
	else:
		with open(path, encoding=encoding) as f:
			lines = skip(iter(f), OFFSET)
			found = [json.loads(line) for _, line in zip(range(LIMIT), lines) if line.strip()]
		total = None
	names = list(dict.fromkeys(k for r in found if isinstance(r, dict) for k in r)) or ['value']
	return page([[r.get(n) for n in names] if isinstance(r, dict) else [r] for r in found], names, total, **told)


PARAGRAPH, PARAGRAPHS, DOCUMENT = 4000, 2000, 32 << 20
FORMATS = '{http://schemas.openxmlformats.org/%s/2006/%s}'
unpacked = 0


def part(z, name):
	"""The root of a part of a document. All parts together are bounded: a small archive may unpack to gigabytes."""
	import xml.etree.ElementTree as tree
	global unpacked
	with z.open(name) as f:
		text = f.read(DOCUMENT - unpacked + 1)
	unpacked += len(text)
	if unpacked > DOCUMENT or b'<!DOCTYPE' in text[:4096]:
		raise ValueError('the document is too long to be shown')
	return tree.fromstring(text)


def paragraphs(found):
	rows = [[s[:CELL], t[:PARAGRAPH]] for s, t in found[OFFSET:OFFSET + LIMIT]]
	return {'kind': 'table', 'columns': [{'name': n, 'type': 'str'} for n in ('style', 'text')], 'rows': rows, 'total': len(found), 'offset': OFFSET}


def document(path):
	"""The paragraphs of a Word document, each with its style; rows of tables are paragraphs, too."""
	import zipfile
	space = FORMATS % ('wordprocessingml', 'main')
	with zipfile.ZipFile(path) as z:
		body = part(z, 'word/document.xml').find(space + 'body')

	def words(node):
		return ''.join(n.text or '' if n.tag == space + 't' else '\t' if n.tag == space + 'tab' else '\n' if n.tag == space + 'br' else '' for n in node.iter())
	found = []
	for node in body if body is not None else ():
		if node.tag == space + 'tbl':
			found += [['row', '\t'.join(words(cell) for cell in row.iter(space + 'tc'))] for row in node.iter(space + 'tr')]
		elif node.tag == space + 'p':
			style = node.find(space + 'pPr/' + space + 'pStyle')
			found.append([style.get(space + 'val', '') if style is not None else 'list' if node.find(space + 'pPr/' + space + 'numPr') is not None else '', words(node)])
		if len(found) > PARAGRAPHS:
			break
	return paragraphs(found)


def slides(path):
	"""The texts of a PowerPoint file: for each slide a row with its number, then its titles, paragraphs and rows of tables."""
	import posixpath
	import zipfile
	main, show = FORMATS % ('drawingml', 'main'), FORMATS % ('presentationml', 'main')
	link = FORMATS % ('officeDocument', 'relationships') + 'id'

	def words(node):
		return ''.join(n.text or '' if n.tag == main + 't' else '\n' if n.tag == main + 'br' else '' for n in node.iter())
	found = []
	with zipfile.ZipFile(path) as z:
		places = {r.get('Id'): r.get('Target', '') for r in part(z, 'ppt/_rels/presentation.xml.rels')}
		ids = [s.get(link) for s in part(z, 'ppt/presentation.xml').iter(show + 'sldId')]
		for number, id in enumerate(ids, 1):
			found.append(['slide', str(number)])
			tables, style = set(), ''
			for node in part(z, posixpath.normpath(posixpath.join('/ppt', places[id]))[1:]).iter():
				if node.tag == main + 'tr':
					tables.update(node.iter(main + 'p'))
					found.append(['row', '\t'.join(words(cell) for cell in node.iter(main + 'tc'))])
				elif node.tag == show + 'sp':
					holder = node.find('.//' + show + 'ph')
					style = 'title' if holder is not None and holder.get('type') in ('title', 'ctrTitle') else ''
				elif node.tag == main + 'p' and node not in tables and words(node).strip():
					found.append([style, words(node)])
			if len(found) > PARAGRAPHS:
				break
	return paragraphs(found)


def archive(path):
	import datetime
	if path.endswith('.zip'):
		import zipfile
		with zipfile.ZipFile(path) as z:
			found = z.infolist()
		rows = [[i.filename, i.file_size, '%d-%02d-%02d %02d:%02d' % i.date_time[:5]] for i in found[OFFSET:OFFSET + LIMIT]]
		return page(rows, ['name', 'bytes', 'modified'], len(found), ['str', 'int', 'str'])
	import tarfile
	with tarfile.open(path) as t:
		found = [i for _, i in zip(range(OFFSET + LIMIT), t)]
	rows = [[i.name + '/' * i.isdir(), i.size, datetime.datetime.fromtimestamp(i.mtime).strftime('%Y-%m-%d %H:%M')] for i in found[OFFSET:]]
	return page(rows, ['name', 'bytes', 'modified'], None, ['str', 'int', 'str'])


def main():
	path = os.fsdecode(PATH)
	if ENCODING:
		try:
			return page([], [], **encoding_of(path)[1])
		except OSError as e:
			return {'error': str(e)[:CELL]}
	suffix = os.path.splitext(path)[1].lower()
	readers = {'.csv': lambda p: delimited(p, ','), '.tsv': lambda p: delimited(p, '\t'), '.tab': lambda p: delimited(p, '\t'),
		'.parquet': parquet, '.pq': parquet, '.xlsx': excel, '.xlsm': excel, '.jsonl': records, '.ndjson': records, '.json': records,
		'.docx': document, '.pptx': slides, '.zip': archive, '.tar': archive, '.tgz': archive, '.gz': archive, '.bz2': archive, '.xz': archive}
	if suffix not in readers:
		return {'error': 'Tables are CSV, TSV, Parquet, Excel (xlsx) and JSON lines; documents are docx and pptx; archives are zip and tar.'}
	try:
		return readers[suffix](path)
	except ImportError as e:
		return {'error': 'The image has no %s, which reads such files.' % e.name}
	except Exception as e:
		return {'error': ('%s: %s' % (type(e).__name__, e))[:CELL]}


sys.stdout.write(json.dumps(main()))
