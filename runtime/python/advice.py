# SPDX-License-Identifier: Apache-2.0
"""One line of advice for an exception that code did not catch: a file that is not there, a file that is not text,
a place that cannot be written. It is printed before the traceback.

The server adds what only it knows: which tool installs a package, which network there is."""
import os
import sys

WORKSPACE = '/mnt/data'
NAMES_SHOWN, NAMES_LOOKED = 12, 2000
HEAD_BYTES, DATA_LOOKED = 512, 1 << 20
FRAMES_LOOKED = 40
MODULES_LOOKED, COLUMNS_SHOWN, COLUMN_BYTES = 5000, 20, 40

# The first bytes of a file, where they stand, what it is, and what reads it: modules in the order of preference.
KINDS = (
	(b'PAR1', 0, 'a Parquet file', (('pandas', 'pandas.read_parquet()'), ('pyarrow', 'pyarrow.parquet.read_table()'))),
	(b'ARROW1', 0, 'an Arrow (Feather) file', (('pandas', 'pandas.read_feather()'),)),
	(b'%PDF', 0, 'a PDF', (('pdfplumber', 'pdfplumber.open()'), ('pypdf', 'pypdf.PdfReader()'), ('pdfminer', 'pdfminer.high_level.extract_text()'), (None, 'the command pdftotext'))),
	(b'\x1f\x8b', 0, 'gzip data', (('gzip', 'gzip.open(path, "rt"), or compression="gzip" in pandas'),)),
	(b'BZh', 0, 'bzip2 data', (('bz2', 'bz2.open(path, "rt")'),)),
	(b'\xfd7zXZ', 0, 'xz data', (('lzma', 'lzma.open(path, "rt")'),)),
	(b'\x28\xb5\x2f\xfd', 0, 'zstd data', (('zstandard', 'zstandard.open(path, "rt")'), ('compression.zstd', 'compression.zstd.open(path, "rt")'))),
	(b'\x89PNG', 0, 'a PNG picture', (('PIL', 'PIL.Image.open()'),)),
	(b'\xff\xd8\xff', 0, 'a JPEG picture', (('PIL', 'PIL.Image.open()'),)),
	(b'GIF8', 0, 'a GIF picture', (('PIL', 'PIL.Image.open()'),)),
	(b'WEBP', 8, 'a WebP picture', (('PIL', 'PIL.Image.open()'),)),
	(b'SQLite format 3', 0, 'an SQLite database', (('sqlite3', 'sqlite3.connect()'),)),
	(b'\x89HDF', 0, 'an HDF5 file', (('h5py', 'h5py.File()'), ('tables', 'pandas.read_hdf()'))),
	(b'\x93NUMPY', 0, 'a NumPy array', (('numpy', 'numpy.load()'),)),
	(b'\xd0\xcf\x11\xe0', 0, 'an old Office file (xls, doc, ppt)', (('xlrd', 'pandas.read_excel() for xls'),)),
	(b'\x7fELF', 0, 'a program', ()),
	(b'\x80\x02', 0, 'a pickle', (('pickle', 'pickle.load() on the file opened with "rb"'),)),
	(b'\x80\x03', 0, 'a pickle', (('pickle', 'pickle.load() on the file opened with "rb"'),)),
	(b'\x80\x04\x95', 0, 'a pickle', (('pickle', 'pickle.load() on the file opened with "rb"'),)),
	(b'\x80\x05\x95', 0, 'a pickle', (('pickle', 'pickle.load() on the file opened with "rb"'),)),
	(b'ustar', 257, 'a tar archive', (('tarfile', 'tarfile.open()'),)),
	(b'\xff\xfe', 0, 'text in UTF-16', ((None, 'encoding="utf-16"'),)),
	(b'\xfe\xff', 0, 'text in UTF-16', ((None, 'encoding="utf-16"'),)),
)
# What the folders in a ZIP archive say that it is.
IN_ZIP = (
	('xl/', 'an Excel workbook', (('openpyxl', 'pandas.read_excel()'),)),
	('word/', 'a Word document', (('docx', 'docx.Document() of python-docx'),)),
	('ppt/', 'a PowerPoint presentation', (('pptx', 'pptx.Presentation() of python-pptx'),)),
	('', 'a ZIP archive', (('zipfile', 'zipfile.ZipFile()'),)),
)
UNREADABLE = frozenset(('UnicodeDecodeError', 'ParserError', 'JSONDecodeError', 'EmptyDataError'))


def advice_for(error, tb):
	# Names of files may have line ends, with which they could look like a line of the server.
	return ''.join(c if c.isprintable() else c.encode('unicode_escape').decode() for c in advice_of(error, tb))


def advice_of(error, tb):
	try:
		if isinstance(error, FileNotFoundError):
			return missing_file(error, tb)
		if isinstance(error, ModuleNotFoundError):
			return mistyped_module(error)
		if isinstance(error, KeyError):
			return missing_column(error, tb)
		if 'Kaleido' in str(error)[:200]:
			return 'plotly needs a browser for pictures, and there is none here: fig.show() saves a page for people. A picture is drawn with matplotlib.'
		if isinstance(error, UnicodeError) or type(error).__name__ in UNREADABLE or 'NUL' in str(error)[:80]:
			return unreadable_file(error, tb)
		if isinstance(error, OSError) and error.errno in (13, 30) and isinstance(error.filename, str) \
				and not os.path.abspath(error.filename).startswith(WORKSPACE):
			return 'files are written in %s (and in /tmp and the home folder), not at %s.' % (WORKSPACE, error.filename)
	except Exception:
		pass
	return ''


def frames_of(tb):
	found = []
	while tb is not None:
		found.append(tb.tb_frame)
		tb = tb.tb_next
	return found[-FRAMES_LOOKED:]


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
	names = workspace_names()
	said = nearest(wanted, names)
	folder = os.path.dirname(wanted)
	if not said and folder and not os.path.isdir(folder):
		own = os.path.abspath(folder).startswith((WORKSPACE, '/tmp/', os.path.expanduser('~')))
		said = 'the folder %s does not exist%s ' % (folder, ': os.makedirs() makes one.' if own else '.')
	return said + (listed(names) if names else 'There are no files in %s.' % WORKSPACE)


def nearest(wanted, names):
	import difflib
	base = os.path.basename(wanted.rstrip('/')).lower()
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
	if not 5 <= len(wanted) <= 64 or not wanted.isidentifier():
		return ''
	near = sorted(name for name in module_names() if name[0] != '_' and one_slip(wanted.lower(), name.lower()))
	return 'the module %s may be meant, which is installed.' % near[0] if near else ''


def one_slip(a, b):
	"""True if A becomes B by one letter more, less or changed, or by two neighbours in the other order."""
	if abs(len(a) - len(b)) > 1:
		return False
	same = len(os.path.commonprefix((a, b)))
	a, b = a[same:], b[same:]
	return a[1:] == b[1:] or a[1:] == b or a == b[1:] or a[:2] == b[1::-1] and a[2:] == b[2:]


def missing_column(error, tb):
	"""The columns of the table in which pandas looked for one. Rows are looked for by .loc, which says enough."""
	table = None
	for frame in frames_of(tb):
		if frame.f_code.co_filename.endswith('core/indexing.py'):
			return ''
		for name in 'self', 'obj', 'frame', 'df', 'left', 'right':
			value = frame.f_locals.get(name)
			if '/pandas/' in frame.f_code.co_filename and type(value).__name__ == 'DataFrame':
				table = value
	if table is None:
		return ''
	names = [repr(name)[:COLUMN_BYTES] for name in list(table.columns[:COLUMNS_SHOWN])]
	more = len(table.columns) - len(names)
	return 'the columns of this table are %s%s.' % (', '.join(names), ' and %d more' % more if more > 0 else '') if names else 'this table has no columns.'


# A file that is not text ------------------------------------------------------------------------------


def open_files(tb):
	"""Paths of files that the frames of the traceback name in their variables, nearest to the error first."""
	found = []
	for frame in reversed(frames_of(tb)):
		for value in list(frame.f_locals.values()):
			path = value
			if not isinstance(path, (str, bytes, os.PathLike)):
				path = getattr(value, 'name', None) if hasattr(value, 'read') else None
			if not isinstance(path, (str, os.PathLike)) or len(os.fspath(path)) > 1024:
				continue
			path = os.fspath(path)
			if isinstance(path, str) and path not in found and '\0' not in path and os.path.isfile(path) \
					and not path.startswith(('/usr/', '/proc/', '/tmp/.caisson/')):
				found.append(path)
	return found


def reader(choices):
	"""What to use: the first module that is here, else the first one at all."""
	from importlib.util import find_spec
	for module, use in choices:
		if module is None or module.partition('.')[0] in sys.modules or find_spec(module.partition('.')[0]):
			return use
	return choices[0][1] if choices else ''


def kind_of(path, head):
	"""(what it is, what reads it), or None."""
	if head[:4] == b'PK\x03\x04':
		names = []
		if path:
			import zipfile
			try:
				with zipfile.ZipFile(path) as z:
					names = z.namelist()[:1000]
			except (zipfile.BadZipFile, OSError):
				pass
		else:
			names = [start for start, what, choices in IN_ZIP if start and start.encode() in head]
		for start, what, choices in IN_ZIP:
			if any(name.startswith(start) for name in names) or not start:
				return what, reader(choices)
	for magic, at, what, choices in KINDS:
		if head[at:at + len(magic)] == magic:
			return what, reader(choices)
	return None


def in_charset(what, data):
	"""Advice for text that is not UTF-8."""
	found = charset_of(data) if b'\0' not in data else None
	if not found:
		return ''
	name, sure = found
	return '%s is not UTF-8 but %s %s (%d %% sure): read it with encoding="%s"%s.' % (what, 'most likely' if sure > LATIN_SURE else 'perhaps', name, sure, name,
		'' if sure > LATIN_SURE else ', and look whether letters with accents come out right')


def unreadable_file(error, tb):
	undecoded = isinstance(error, UnicodeDecodeError)
	for path in open_files(tb):
		with open(path, 'rb') as f:
			data = f.read(DATA_LOOKED)
		if not data:
			return '%s is empty.' % path
		kind = kind_of(path, data[:HEAD_BYTES])
		if kind:
			return '%s is %s%s.' % (path, kind[0], ': read it with ' + kind[1] if kind[1] else '')
		said = in_charset(path, data) if undecoded and not is_utf8(data, len(data) == DATA_LOOKED) else ''
		if said:
			return said
	data = getattr(error, 'object', b'')
	if not undecoded or not isinstance(data, bytes):
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
