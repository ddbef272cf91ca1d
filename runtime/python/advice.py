# SPDX-License-Identifier: Apache-2.0
"""One line of advice for an exception that code did not catch: a file that is not there, a file that is not text,
a place that cannot be written. It is printed before the traceback.

The server adds what only it knows: which tool installs a package, which network there is."""
import os
import sys

WORKSPACE = '/mnt/data'
NAMES_SHOWN, NAMES_LOOKED = 12, 2000
FRAMES_LOOKED, LINE_CHARS, BOM = 40, 200, '\ufeff'
MODULES_LOOKED, COLUMNS_SHOWN, COLUMN_BYTES = 5000, 20, 40

# What readers of files raise when a file is not what they expect.
UNREADABLE = frozenset('''UnicodeDecodeError ParserError JSONDecodeError EmptyDataError BadZipFile InvalidFileException XLRDError CompDocError ArrowInvalid
	BadGzipFile UnpicklingError UnidentifiedImageError ComputeError NoDataError ReadError PdfReadError PdfStreamError PDFSyntaxError PackageNotFoundError
	LZMAError XMLSyntaxError SchemaError MatReadError'''.split())
UNREADABLE_TEXTS = ('Excel file format cannot be determined', 'Trailing data', 'Expected object or value', 'file is not a database', 'could not convert string',
	'Not a gzipped file', 'Invalid data stream', 'No magic bytes found', 'Specify an engine', 'is not a valid xls', 'not utf-8 encoded', 'to be a Parquet file', 'Parquet magic bytes', 'contains pickled', 'not a valid DuckDB', 'Unknown mat file', 'Version of given Stata', 'not a Feather', 'end-of-file without')
# What readers of Office files say of a file that is another one of these, or no such file at all.
FOREIGN_TEXTS = 'There is no item named', "'io.excel.", 'is not a Word file', 'is not a PowerPoint file'
# What the right reader says of a file whose end is missing, by a word of the kind in kinds.py.
DAMAGED = (('PDF', ('Stream has ended unexpectedly', 'Unexpected EOF', 'No /Root object', 'EOF marker not found')), ('pickle', ('pickle data was truncated', 'Ran out of input')),
	('Parquet', ('Parquet magic bytes', 'too small to be')), ('Arrow', ('Not an Arrow file', 'too small to be')), ('picture', ('is truncated',)), ('gzip', ('ended before the end-of-stream', 'CRC check failed')),
	('xz', ('ended before the end-of-stream',)), ('bzip2', ('ended before the end-of-stream',)), ('NumPy', ('could only read', 'cannot reshape')), ('SQLite', ('disk image is malformed',)), ('tar', ('unexpected end of data',)))
DAMAGED_TEXTS = tuple(text for kind, texts in DAMAGED for text in texts)
# Modules of packages with names like those of installed ones, so nobody mistyped them.
NO_SLIPS = frozenset('''aenum asgiref cattrs cchardet contextlib2 crypt dateutils glob2 hjson httpx icalendar ijson json5 jsons locket markdown2 ntplib parsy pathlib2 pathy polib
	pyaml pydot rarfile scapy simpy smmap sunpy typer ujson uuid6 uuid7 weave xarray xattr'''.split())
GONE = frozenset('append ix iteritems as_matrix'.split())  # methods of old versions of pandas, no columns
FONT_FILES = '.ttf', '.ttc', '.otf', '.afm', '.pfb'
ELSEWHERE = ('/content', '/kaggle', '/home/user', '/home/jovyan', '/workspace', '/sandbox', '/Users/', '/data', '/input', '/output', '/uploads', '/files')
# For fpdf2.
PDF_LETTERS = '/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf'
PDF_SHAPED = ' For Arabic and Hebrew also pdf.set_text_shaping(True).'
SOURCE_LOOKED = 20000
TITLE_LOOKED = 40  # lines or rows in which the header is looked for


def advice_for(error, tb):
	return printable(advice_of(error, tb))


def printable(text):
	"""Names of files may have line ends, with which they could look like a line of the server."""
	return ''.join(c if c.isprintable() else c.encode('unicode_escape').decode() for c in text)


def advice_of(error, tb):
	try:
		if isinstance(error, FileNotFoundError):
			return missing_file(error, tb)
		if 'fastexcel' in str(error)[:200]:
			return 'polars reads Excel with engine="openpyxl" here.'
		if isinstance(error, ModuleNotFoundError):
			return mistyped_module(error)
		said = unreadable_file(error, tb) if any(text in str(error)[:400] for text in FOREIGN_TEXTS) else ''
		if said:
			return said
		said = number_with_signs(error) or of_date(error) or of_database(error, tb) or of_table_file(error, tb)
		if said:
			return said
		if isinstance(error, KeyError) or type(error).__name__ == 'ColumnNotFoundError' or isinstance(error, AttributeError) and has_columns_as_names(getattr(error, 'obj', None)) and error.name not in GONE:
			return missing_column(error, tb)
		if isinstance(error, IndexError):
			return lone_field(tb)
		if 'Kaleido' in str(error)[:200]:
			return 'plotly needs a browser for pictures, and there is none here: fig.show() saves a page for people. A picture is drawn with matplotlib.'
		if 'outside the range of characters supported by the font' in str(error)[:200]:
			return font_of_pdf() + (PDF_SHAPED if any('\u0590' <= c <= '\u08ff' for c in str(error)[:80]) else '')
		if isinstance(error, UnicodeEncodeError):
			return lacking_letters(error)
		if isinstance(error, UnicodeError) or type(error).__name__ in UNREADABLE or 'NUL' in str(error)[:80] or any(text in str(error)[:400] for text in UNREADABLE_TEXTS + DAMAGED_TEXTS):
			return unreadable_file(error, tb)
		if isinstance(error, OSError) and error.errno in (13, 30) and isinstance(error.filename, str) \
				and not os.path.abspath(error.filename).startswith(WORKSPACE):
			return 'files are written in %s (and in /tmp and the home folder), not at %s.' % (WORKSPACE, error.filename)
	except Exception:
		pass
	return ''


def font_of_pdf():
	name = PDF_LETTERS if os.path.exists(PDF_LETTERS) else 'FILE.ttf'
	return 'the standard fonts of a PDF have Latin letters only: pdf.add_font("Letters", fname="%s"), then pdf.set_font("Letters").' % name


def frames_of(tb):
	found = []
	while tb is not None:
		found.append(tb.tb_frame)
		tb = tb.tb_next
	return found[-FRAMES_LOOKED:]


def source_lines(frame):
	"""The lines of the program as far as FRAME has come. Those of a run without a session are known by their code."""
	import linecache
	lines = linecache.getlines(frame.f_code.co_filename)
	if not lines and hasattr(linecache, '_getlines_from_code'):
		lines = linecache._getlines_from_code(frame.f_code)
	return lines[:frame.f_lineno]


# A file that is not there -----------------------------------------------------------------------------


def workspace_names():
	"""Paths of files in the workspace, relative to it; hidden ones are left out."""
	found = []
	for folder, folders, files in os.walk(WORKSPACE):
		folders[:] = sorted(name for name in folders if name[0] != '.')
		inside = os.path.relpath(folder, WORKSPACE)
		for name in sorted(files):
			if name[0] != '.':
				found.append(name if inside == '.' else os.path.join(inside, name))
		if len(found) >= NAMES_LOOKED:
			break
	return found


def missing_file(error, tb):
	wanted = error.filename
	if isinstance(wanted, bytes):
		wanted = os.fsdecode(wanted)
	if not isinstance(wanted, str) or not wanted:
		return ''
	if any(f.f_code.co_name == '_execute_child' for f in frames_of(tb)):
		return 'the program %s is not in this sandbox.' % wanted if '/' not in wanted else ''
	if wanted.lower().endswith(FONT_FILES):
		return 'this font is not here, and charts and PDFs need none: matplotlib and reportlab write every script as they are. `fc-list` lists the fonts.'
	try:
		os.getcwd()
	except FileNotFoundError:
		return 'the working folder was removed. os.chdir(%r) goes back.' % WORKSPACE
	names = workspace_names()
	said = nearest(wanted, names)
	if not said and (wanted.startswith('sandbox:') or wanted[1:3] == ':\\'):
		said = 'files are in %s here: give their names without %s. ' % (WORKSPACE, 'sandbox:' if wanted[0] == 's' else 'folders of Windows')
	if not said and wanted.startswith(ELSEWHERE):
		said = 'files are in %s here, which is the working folder: leave the folder of the name out. ' % WORKSPACE
	folder = os.path.dirname(wanted)
	if not said and folder and not os.path.isdir(folder):
		own = os.path.abspath(folder).startswith((WORKSPACE, '/tmp/', os.path.expanduser('~')))
		said = 'the folder %s does not exist%s ' % (folder, ': os.makedirs() makes one.' if own else '.')
	return said + (listed(names) if names else 'There are no files in %s.' % WORKSPACE)


def nearest(wanted, names):
	import difflib
	base = os.path.basename(wanted.rstrip('/').replace('\\', '/')).lower()
	bases = {}
	for name in names:
		bases.setdefault(os.path.basename(name).lower(), name)
	near = [base] if base in bases else difflib.get_close_matches(base, bases, 1, 0.6)
	return '%s may be meant. ' % os.path.join(WORKSPACE, bases[near[0]]) if near else ''


def listed(names):
	more = len(names) - NAMES_SHOWN
	return '%s has: %s%s.' % (WORKSPACE, ', '.join(names[:NAMES_SHOWN]), ' and %d more' % more if more > 0 else '')


# Names that are not there -----------------------------------------------------------------------------


def module_names():
	"""Modules of the top level that can be imported."""
	found = set(sys.stdlib_module_names)
	for folder in sys.path:
		try:
			names = os.listdir(folder or '.')
		except OSError:
			continue
		for name in names[:MODULES_LOOKED]:
			base, dot, end = name.partition('.')
			if base.isidentifier() and (not dot or end == 'py' or end.endswith('.so')):
				found.add(base)
	return found


def mistyped_module(error):
	"""The server recognises these words, and then does not just advise to install a package of the mistyped name."""
	wanted = error.name or ''
	own = own_module(wanted)
	if own:
		return own
	if not 5 <= len(wanted) <= 64 or not wanted.isidentifier() or wanted in NO_SLIPS or wanted in sys.stdlib_module_names:
		return ''
	near = sorted(name for name in module_names() if name[0] != '_' and one_slip(wanted.lower(), name.lower()))
	return 'the module %s may be meant, which is installed.' % near[0] if near else ''


def own_module(wanted):
	"""A module of the workspace that is in no folder where imports look. The server recognises these words, too, and advises to install
	nothing: a package of that name is somebody else's."""
	if not wanted.isidentifier():
		return ''
	for name in workspace_names():
		above, found, inside = ('/' + name).partition('/%s/' % wanted)
		if not found and name.endswith('/%s.py' % wanted):
			above, found, inside = '/' + os.path.dirname(name), '/', name
		if found and above and inside.endswith('.py'):
			return 'your module %s is in %s, where imports do not look: sys.path.insert(0, %r) before the import.' % (wanted, WORKSPACE + above, WORKSPACE + above)
	return ''


def one_slip(a, b):
	"""True if A becomes B by one letter more, less or changed, or by two neighbours in the other order."""
	if abs(len(a) - len(b)) > 1:
		return False
	same = len(os.path.commonprefix((a, b)))
	a, b = a[same:], b[same:]
	return a[1:] == b[1:] or a[1:] == b or a == b[1:] or a[:2] == b[1::-1] and a[2:] == b[2:]


def is_table(value):
	return type(value).__name__ == 'DataFrame' and type(value).__module__.startswith(('pandas.', 'polars.'))


def has_columns_as_names(value):
	"""A table of pandas, whose columns are attributes, too. Those of polars are not: a name that is missing there is a method's."""
	return is_table(value) and type(value).__module__.startswith('pandas.')


def lone_key(frame, wanted):
	"""The one name in a row of csv.DictReader that has WANTED in it: the separator was wrong. In a session, which has
	variables of earlier cells, too, only those of the failing line are looked at. Or the first of more names, if a byte order mark is before it."""
	import re
	line = set(re.findall(r'\w+', ''.join(source_lines(frame)[-1:])))
	for value in [frame.f_locals[name] for name in list(frame.f_locals) if not line or name in line][:NAMES_LOOKED]:
		if isinstance(value, list) and value:
			value = value[0]
		if isinstance(value, dict):
			for name in list(value)[:1]:
				if isinstance(name, str) and wanted in name and wanted != name and (len(value) == 1 or name[:1] == BOM):
					return name
	return ''


def missing_column(error, tb):
	"""The columns of the table in which pandas or polars looked for one. Rows are looked for by .loc, which says enough."""
	table = getattr(error, 'obj', None)
	frames = frames_of(tb)
	for frame in frames:
		if frame.f_code.co_filename.endswith('core/indexing.py'):
			return ''
		for name in 'self', 'obj', 'frame', 'df', 'left', 'right':
			value = frame.f_locals.get(name)
			value = value.__dict__.get('obj') if 'GroupBy' in type(value).__name__ else value
			if ('/pandas/' in frame.f_code.co_filename or '/polars/' in frame.f_code.co_filename) and is_table(value):
				table = value
	if table is None:
		name = lone_key(frames[-1], error.args[0]) if frames and isinstance(error, KeyError) and error.args and isinstance(error.args[0], str) else ''
		if name[:1] == BOM:
			return 'the first name is %r, with a byte order mark: open the file with encoding="utf-8-sig".' % name[:COLUMN_BYTES]
		if wrong_separator(name):
			return 'the rows have one column, %s: %s.' % (repr(name)[:COLUMN_BYTES], wrong_separator(name))
		return of_csv_rows(error, tb) if 'csv' in sys.modules and error.args and isinstance(error.args[0], str) else ''
	names = [repr(name)[:COLUMN_BYTES] for name in list(table.columns[:COLUMNS_SHOWN])]
	more = len(table.columns) - len(names)
	if not names:
		return 'this table has no columns.'
	said = 'the columns of this table are %s%s' % (', '.join(names), ' and %d more' % more if more > 0 else '')
	wrong = above_read_table(table, error.args[0] if isinstance(error, KeyError) and error.args else getattr(error, 'name', '')) or \
		no_table(open_files(tb), str(table.columns[0])) or (wrong_separator(str(table.columns[0])) if len(table.columns) == 1 else '')
	words = str(getattr(error, 'name', '') or (error.args[0] if error.args else ''))
	if not wrong and any(str(name) != str(name).strip() and str(name).strip().lower() in words.lower() for name in table.columns[:NAMES_LOOKED]):
		wrong = 'df.columns = df.columns.str.strip() takes the blanks from the names'
	return '%s: %s.' % (said, wrong) if wrong else said + '.'


def of_csv_rows(error, tb):
	"""The same as of a table, for rows of csv.DictReader that are in no variable any more."""
	for path in open_files(tb):
		head = beginning(path)[:HEAD_BYTES * 8].decode('utf-8', 'replace')
		first, wanted = head.split('\n')[0], error.args[0].strip()
		if wanted in head and wanted not in [name.strip() for name in first.split(',')]:
			wrong = wrong_separator(first) if wanted in first else above_table(path)
			return 'the first line of %s is %s: %s' % (path, ascii_line(path), wrong.rstrip('.') + '.') if wrong else ''
	return ''


def lone_field(tb):
	"""What to do about rows of csv.reader() that have one field, because the separator is another one."""
	import re
	frame = frames_of(tb)[-1]
	for name in re.findall(r'\w+', ''.join(source_lines(frame)[-1:])):
		value = frame.f_locals.get(name)
		if isinstance(value, list) and len(value) == 1 and isinstance(value[0], str) and wrong_separator(value[0]):
			return 'the row has one field, %s: %s.' % (repr(value[0])[:COLUMN_BYTES], wrong_separator(value[0]))
	return ''


def wrong_separator(name):
	"""What to do about a table whose one column has NAME, the first line of its file."""
	data = name.encode('utf-8', 'replace')
	kind = text_kind(data, True) if name[:1] in '<{[' or name.startswith('version https:') else kind_of('', data)
	if kind:
		return 'the file is %s, no CSV%s' % (kind[0], ', and is read with ' + kind[1] if kind[1] else '')
	counts = {one: name.count(one) for one in SEPARATORS}
	best = max(counts, key=counts.get)
	if not counts[best]:
		import re
		return 'blanks are between the columns, so read the file with sep=r"\\s+"' if re.search(r'\S\s{2,}\S', name.strip()) else ''
	return 'the separator is %r, so read the file with sep=%r (csv: delimiter=%r)%s' % (best, best, best, ', and decimal="," if it has decimal commas' if best == ';' else '')


def number_with_signs(error):
	"""A text that a library took for a number."""
	import re
	found = re.search(r'conversion from `str` to `[iuf]\d+` failed[^[]*\["(.{1,60}?)"', str(error)[:400])
	if found:
		return number_of_polars(found.group(1))
	found = re.search(r'(?:could not convert string to float|invalid literal for int\(\) with base 10|Unable to parse string|Could not convert string)[: ]+([\'"])(.{1,60}?)\1(?: to \w+ at row (\d+))?', str(error)[:400], re.I)
	if not found or isinstance(error, UnicodeError):
		return ''
	text = found.group(2).strip()
	if found.group(3) == '0' and re.search('[^\\W\\d]{2}', text):
		return 'the first line has names: numpy.loadtxt(path, skiprows=1), or pandas.read_csv().'
	# pandas puts the texts of a column together when it adds them up
	if re.fullmatch(r'-?\d{1,3}(?:,\d{3})+(?:\.\d+)?', text) or re.fullmatch(r'-?\d{1,3}(?:,\d{3,})+(?:,\d*)*', text) and text.count(',') > 1:
		return 'the numbers have commas between thousands: pandas.read_csv(path, thousands=","), or of a column column.str.replace(",", "").astype(float).'
	if re.search(r'(?:^|[^\d.])(?:\d{1,3}(?:\.\d{3})+|\d+),\d{1,2}(?!\d)', text) and not re.fullmatch(r'[-+\d.,]+', text):
		return 'the numbers have decimal commas and signs: column.str.replace(r"[^\\d,-]", "", regex=True).str.replace(",", ".").astype(float).'
	if re.match(r'-?(?:\d{1,3}(?:\.\d{3})+|\d+),\d', text):
		return 'the numbers have decimal commas: pandas.read_csv(path, decimal=",", thousands=".") with the sep of the file, or of a column column.str.replace(".", "").str.replace(",", ".").astype(float).'
	if re.search(r'\d', text) and re.search(r'[$\u20ac\xa3\xa5\u20b9%]|^[A-Z]{3}\b|\b[A-Z]{3}$', text):
		return 'the numbers have signs: pandas.to_numeric(column.str.replace(r"[^\\d.-]", "", regex=True), errors="coerce") takes the digits alone.'
	if '/pandas/' not in ''.join(frame.f_code.co_filename for frame in frames_of(error.__traceback__)):
		return ''
	return 'a column with text is among those to calculate with: select columns of numbers, give numeric_only=True, or use pandas.to_numeric(column, errors="coerce").'


def number_of_polars(text):
	import re
	if re.match(r'-?(?:\d{1,3}(?:\.\d{3})+|\d+),\d{1,2}(?!\d)', text) or re.match(r'-?\d{1,3}(?:\.\d{3})+,\d', text):
		return 'the numbers have decimal commas: polars.read_csv(path, separator=";", decimal_comma=True), or of a column pl.col(NAME).str.replace_all(".", "", literal=True).str.replace(",", ".").cast(pl.Float64).'
	if re.search(r'\d', text):
		return 'the numbers have commas or signs: pl.col(NAME).str.replace_all(r"[^\\d.-]", "").cast(pl.Float64).'
	return 'a text is among the numbers: .cast(pl.Float64, strict=False) makes null of it.'


def of_date(error):
	"""A text that a library did not take for a date, or has not been asked to."""
	import re
	text = str(error)[:400]
	if 'Can only use .dt accessor' in text:
		return 'this column is no column of dates: pandas.to_datetime(column) makes one of text, and needs dayfirst=True for 31.12.2024.'
	found = re.search(r'(?:time data|Invalid isoformat string:) ([\'"])(\d{1,2})([./-])(\d{1,2})[./-](\d{2,4})', text)
	if not found:
		return ''
	sign, year = found.group(3), '%Y' if len(found.group(5)) == 4 else '%y'
	order = '%d{0}%m{0}' if int(found.group(2)) > 12 else '%m{0}%d{0}' if int(found.group(4)) > 12 else ''
	if not order:
		return ''
	form = order.format(sign) + year
	return 'the %s stands first: pandas.to_datetime(column, format="%s"), or datetime.strptime(text, "%s").' % ('day' if order[1] == 'd' else 'month', form, form)


def of_database(error, tb):
	"""What a database of SQLite has, if it does not have what was asked for."""
	import re
	if not re.search(r'no such (?:table|column): ', str(error)[:4000]):
		return ''
	import sqlite3
	base = None
	for frame in reversed(frames_of(tb)):
		for value in values_of(frame):
			base = base or (value.connection if isinstance(value, sqlite3.Cursor) else value if isinstance(value, sqlite3.Connection) else None)
	path = '' if base else next(iter(named_files(tb)), '')
	base = base or sqlite3.connect(path)
	rows = base.cursor()
	rows.row_factory = None
	tables = [name for name, in rows.execute("select name from sqlite_master where type in ('table', 'view') and name not like 'sqlite_%'").fetchmany(NAMES_SHOWN)]
	if tables:
		return 'the database has %s.' % ', '.join('%s(%s)' % (name, ', '.join(row[1] for row in rows.execute('pragma table_info("%s")' % name.replace('"', '""')).fetchmany(COLUMNS_SHOWN)))
			for name in tables)
	names = [name for name in workspace_names() if name.endswith(('.db', '.sqlite', '.sqlite3'))]
	return 'the database has no tables: a name that is no file makes a new one. %s' % (listed(names) if names else '')


def of_table_file(error, tb):
	"""What a reader of tables says about a file, with what the file has."""
	import re
	text = str(error)[:400]
	if text.startswith(('Usecols do not match', 'Missing column provided')) or re.fullmatch(r'Index .* invalid', text):
		for path in open_files(tb):
			return 'the first line of %s is %s.' % (path, ascii_line(path))
	if text.startswith(('Worksheet named', "'Worksheet ", '"Worksheet ')):
		for frame in reversed(frames_of(tb)):
			for value in list(frame.f_locals.values()):
				names = getattr(value, 'sheetnames', None) or getattr(getattr(value, 'book', None), 'sheetnames', None)
				if isinstance(names, list):
					return 'the sheets are %s.' % ', '.join(repr(name) for name in names[:NAMES_SHOWN])
	found = re.search(r'(?:Package not found at|Cannot open resource) ([\'"])(.+?)\1', text)
	if found and not found.group(2).lower().endswith(FONT_FILES) and not is_library(found.group(2)):
		if os.path.isfile(found.group(2)):
			return what_it_is(found.group(2), beginning(found.group(2))) or '%s is no document of Word or PowerPoint.' % found.group(2)
		names = workspace_names()
		return nearest(found.group(2), names) + (listed(names) if names else 'There are no files in %s.' % WORKSPACE)
	found = re.search(r'Expected (\d+) fields in line (\d+), saw (\d+)', text)
	if found:
		return of_ragged_lines(*map(int, found.groups()), tb)
	found = re.search(r'EOF inside string starting at row (\d+)', text)
	if found:
		return 'a quotation mark in row %s has no end: pandas.read_csv(path, quoting=3) takes such marks for letters.' % found.group(1)
	if 'found more fields than defined' in text:
		for path in open_files(tb):
			return above_table(path).replace('skiprows', 'skip_rows').replace('sep=', 'separator=')
	return ''


def ascii_line(path):
	return repr(beginning(path).split(b'\n')[0].decode('utf-8', 'replace').strip()[:LINE_CHARS])


def titled(lines):
	"""(number of the line in which the table begins, its separator) if other lines stand above it, as in a report with a title; else None.
	Lines of the table have one number of columns, and its first one has no empty name."""
	import csv
	for sep in SEPARATORS:
		rows = list(csv.reader(lines[:TITLE_LOOKED], delimiter=sep))
		widths = [len(row) for row in rows]
		width = max(widths[len(widths) // 2:] or [0], key=widths.count)
		if width < 2 or len(rows) != len(lines[:TITLE_LOOKED]):  # a cell with line ends
			continue
		for i, row in enumerate(rows[:-1]):
			if len(row) == width and all(cell.strip() for cell in row) and widths[i + 1] == width:
				return (i + 1, sep) if i else None
	return None


def above_table(path):
	"""What to do about lines above the table of a file; '' if there are none."""
	data = beginning(path)
	lines = [] if kind_of(path, data[:HEAD_BYTES]) else data.decode('utf-8', 'replace').splitlines()
	found = titled(lines)
	return 'the header seems to be in line %d of %s: read the file with skiprows=%d%s.' % (found[0], path, found[0] - 1, '' if found[1] == ',' else ', sep=%r' % found[1]) if found else ''


def above_read_table(table, wanted):
	"""The same for a table that was read: a row of it has the name WANTED, and its own header looks like a title. There are fewer
	names than columns then, so columns have none or have become the index."""
	if not type(table).__module__.startswith('pandas.') or not isinstance(wanted, str) or not wanted:
		return ''
	head, index = table.iloc[:TITLE_LOOKED], table.index
	is_column = index.name is None and len(index) > 0 and isinstance(index[0], (str, tuple))
	if not (is_column or len(table.columns) == 1 or any(str(name).startswith('Unnamed: ') for name in table.columns[:NAMES_LOOKED])):
		return ''
	head = head.reset_index() if is_column else head
	for i, row in enumerate(head.itertuples(index=False)):
		cells = [cell.strip() for cell in row if isinstance(cell, str)]
		for sep in (None,) + SEPARATORS if len(cells) == 1 else (None,):
			names = cells if sep is None else [name.strip() for name in cells[0].split(sep)]
			if len(names) > 1 and wanted.strip() in names:
				return 'the header seems to be in row %d of it, below a title: read the file with header=%d%s' % (i, i + 1, '' if sep is None else ', sep=%r' % sep)
	return ''


def of_ragged_lines(columns, line, saw, tb):
	first = ''
	for path in open_files(tb):
		said = above_table(path)
		if said:
			return said
		first = beginning(path).split(b'\n')[0].decode('utf-8', 'replace')
		break
	wrong = wrong_separator(first)
	if wrong and "sep=','" not in wrong:
		return wrong + '.'
	if columns < saw and columns == 1:
		return 'the header seems to be in line %d: read the file with skiprows=%d.' % (line, line - 1)
	return 'line %d has %d fields, and the lines before it %d: on_bad_lines="skip" leaves such lines out.' % (line, saw, columns)


# A file that is not text ------------------------------------------------------------------------------


def open_files(tb):
	"""Paths of files that a frame of the traceback names in its variables: of the frame nearest to the error. A session has variables of
	earlier cells, too, so of a program's own only those count that this code uses."""
	for frame in reversed(frames_of(tb)):
		found = []
		for path in values_of(frame):
			value = path
			if not isinstance(path, (str, bytes, os.PathLike)):
				path = name_of_file(value)
			if not isinstance(path, (str, os.PathLike)) or len(os.fspath(path)) > 1024:
				continue
			path = os.fspath(path)
			if isinstance(path, str) and path not in found and '\0' not in path and os.path.isfile(path) \
					and not path.startswith(('/usr/', '/proc/', '/tmp/.caisson/')) and not path.endswith(BESIDE):
				found.append(path)
		if found:
			return found
	return named_files(tb)


def values_of(frame):
	names = frame.f_locals
	return [names[name] for name in (list(names) if names is not frame.f_globals else frame.f_code.co_names) if name in names]


def named_files(tb):
	"""Paths that stand as texts in the program's last line, or above it: a file that was opened in the middle of an expression is in no
	variable."""
	import re
	for frame in reversed(frames_of(tb)):
		if not is_library(frame.f_code.co_filename):
			lines = source_lines(frame)
			for text in ''.join(lines[-1:]), ''.join(lines)[-SOURCE_LOOKED:]:
				names = [name for quotes in (r'"([^"\n]{1,255})"', r"'([^'\n]{1,255})'") for name in re.findall(quotes, text)]
				found = [name for name in names if '\0' not in name and os.path.isfile(name)]
				if found:
					return found[-1:]
			return []
	return []


def is_expected(error, kind):
	"""True if the reader that raised ERROR reads such a text, so KIND explains nothing."""
	name = type(error).__name__
	if name in ('JSONDecodeError', 'ValueError') and kind[0] == 'JSON' and type(error).__module__ != 'orjson' or name == 'XMLSyntaxError' and kind[0] == 'XML':
		return True
	return name in ('ParserError', 'ComputeError', 'UnicodeDecodeError') and 'parquet' not in str(error) and kind[0] == "text with ',' between columns"


def is_cut(error):
	"""True if json.loads() has read its text to the end, and a part of the value is missing."""
	doc = error.doc.rstrip()
	return doc[:1] in ('{', '[') and len(doc) > 1 and (error.pos >= len(doc) or error.msg.startswith('Unterminated string') and '"' not in doc[error.pos + 1:])


def in_charset(what, data):
	"""Advice for text that is not UTF-8."""
	found = charset_of(data) if b'\0' not in data else None
	if not found:
		return ''
	name, sure = found
	return '%s is not UTF-8 but %s %s (%d %% sure): read it with encoding="%s"%s.' % (what, 'most likely' if sure > LATIN_SURE else 'perhaps', name, sure, name,
		'' if sure > LATIN_SURE else ', and look whether letters with accents come out right')


def what_it_is(path, data):
	kind = kind_of(path, data[:HEAD_BYTES]) or (None if b'\0' in data else text_kind(data, len(data) < DATA_LOOKED))
	return '%s is %s%s.' % (path, kind[0], ': read it with ' + kind[1] if kind[1] else '') if kind else ''


def read_by_lines(tb):
	"""True if pandas was asked to read a value of JSON from each line."""
	return any(frame.f_locals.get('lines') is True for frame in frames_of(tb) if '/pandas/' in frame.f_code.co_filename)


def unreadable_file(error, tb):
	undecoded = isinstance(error, UnicodeDecodeError) or any(words in str(error)[:400].lower() for words in ('invalid utf-8', 'not utf-8'))
	for path in open_files(tb):
		data = beginning(path)
		doc = getattr(error, 'doc', None)
		if isinstance(doc, str) and doc[:HEAD_BYTES].strip(BOM) != data.decode('utf-8-sig', 'replace').replace('\r\n', '\n')[:HEAD_BYTES].strip(BOM):
			continue  # another text was read
		if not data:
			return '%s is empty.' % path
		kind = kind_of(path, data[:HEAD_BYTES])
		if kind and any(word in kind[0] and any(text in str(error)[:400] for text in texts) for word, texts in DAMAGED):
			return '%s is %s that is damaged or incomplete, most often its end is missing: a program that writes such a file must close it; otherwise give the file once more.' % (path, kind[0])
		if kind and kind[0] == 'a PDF' and type(error).__name__ == 'UnidentifiedImageError':
			kind = kind[0], 'pypdfium2.PdfDocument(path)[0].render(scale=2).to_pil(), which makes a picture of a page'
		if kind:
			return '%s is %s%s.' % (path, kind[0], ': read it with ' + kind[1] if kind[1] else '')
		kind = None if undecoded or b'\0' in data else text_kind(data, len(data) < DATA_LOOKED)
		if kind and kind[0] == 'JSON' and read_by_lines(tb):
			return '%s is one value of JSON, not one in each line: leave lines=True out.' % path
		if not kind and is_yaml(error, data):
			return '%s is YAML: read it with yaml.safe_load().' % path
		if kind and not is_expected(error, kind):
			return '%s is %s%s.' % (path, kind[0], ': read it with ' + kind[1] if kind[1] else '')
		said = in_charset(path, data) if undecoded and not is_utf8(data, len(data) == DATA_LOOKED) else ''
		if said:
			return said
	if isinstance(getattr(error, 'doc', None), str):  # of json.loads(), which knows no file
		if is_cut(error):
			return 'the JSON ends in the middle: it is incomplete.'
		kind = text_kind(error.doc[:DATA_LOOKED].encode('utf-8', 'replace'), len(error.doc) <= DATA_LOOKED) if error.doc.strip() else ('empty', '')
		return 'the text is %s%s.' % (kind[0], ': read it with ' + kind[1] if kind[1] else '') if kind and not is_expected(error, kind) else ''
	data = getattr(error, 'object', b'')
	if not undecoded or not isinstance(data, bytes) or not data:
		return ''
	kind = kind_of('', data[:DATA_LOOKED])
	if kind:
		return 'this is not text but %s%s.' % (kind[0], ': read it with ' + kind[1] if kind[1] else '')
	# Only the part from the error on is known not to be UTF-8, and a part may begin in the middle of a character.
	said = in_charset('the text', data[max(error.start - DATA_LOOKED, 0):error.start + DATA_LOOKED])
	if said:
		return said
	if b'\0' not in data and error.encoding.lower().replace('_', '-') == 'utf-8':
		return 'the text is not UTF-8, and nothing in this image can tell what it is: Western Europe has encoding="cp1252", Central Europe cp1250, Russian cp1251, Chinese gb18030, Japanese shift_jis. Look whether the letters come out right.'
	return 'this is not text: open it with "rb", and look at its first bytes to see what it is.'
