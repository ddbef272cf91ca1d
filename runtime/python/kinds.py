# SPDX-License-Identifier: Apache-2.0
"""What a data file is, by its first bytes or its text, and what reads it. advice.py asks when a program could not read a file."""
import re

AROUND_JSON = '//', '/*', 'var ', 'let ', 'const ', 'window.', 'export '
COMMENT = re.compile(r'("(?:[^"\\]|\\.)*")|//[^\n]*|/\*.*?\*/|^\s*#[^\n]*', re.S | re.M)
TOO_MANY = re.compile(r',(\s*[]}])')
SEPARATORS = ';', '\t', '|', ','
HEAD_BYTES, DATA_LOOKED = 512, 1 << 20
NAMES_IN, NAME_CHARS = 3, 60  # of an archive
LINES_COUNTED, YAML_LINES = 10, 5
UTF_16 = ((None, 'encoding="utf-16" (a table: pandas.read_csv(path, encoding="utf-16", sep=None, engine="python"))'),)
SPSS = (('pyreadstat', 'pandas.read_spss(), with the package pyreadstat'),)
HEIC = (('pillow_heif', 'PIL.Image.open() after pillow_heif.register_heif_opener(), of the package pillow-heif'),)
FILM = (('cv2', 'cv2.VideoCapture(), or the commands ffprobe and ffmpeg'), (None, 'the commands ffprobe and ffmpeg'))
SOUND = ((None, 'the command ffmpeg, which makes WAV of it for scipy.io.wavfile.read()'),)
STATA = (('pandas', 'pandas.read_stata()'),)
# The first bytes of a file, where they stand, what it is, and what reads it: modules in the order of preference.
KINDS = (
	(b'PAR1', 0, 'a Parquet file', (('pandas', 'pandas.read_parquet()'), ('pyarrow', 'pyarrow.parquet.read_table()'))),
	(b'ARROW1', 0, 'an Arrow (Feather) file', (('pandas', 'pandas.read_feather()'),)),
	(b'%PDF', 0, 'a PDF', (('pdfplumber', 'pdfplumber.open()'), ('pypdf', 'pypdf.PdfReader()'), ('pdfminer', 'pdfminer.high_level.extract_text()'), (None, 'the command pdftotext'))),
	(b'\x1f\x8b', 0, 'gzip data', (('gzip', 'gzip.open(path, "rt" or "rb"), or compression="gzip" in pandas'),)),
	(b'BZh', 0, 'bzip2 data', (('bz2', 'bz2.open(path, "rt")'),)),
	(b'\xfd7zXZ', 0, 'xz data', (('lzma', 'lzma.open(path, "rt")'),)),
	(b'\x28\xb5\x2f\xfd', 0, 'zstd data', (('zstandard', 'zstandard.open(path, "rt")'), ('compression.zstd', 'compression.zstd.open(path, "rt")'))),
	(b'\x89PNG', 0, 'a PNG picture', (('PIL', 'PIL.Image.open()'),)),
	(b'\xff\xd8\xff', 0, 'a JPEG picture', (('PIL', 'PIL.Image.open()'),)),
	(b'GIF8', 0, 'a GIF picture', (('PIL', 'PIL.Image.open()'),)),
	(b'WEBP', 8, 'a WebP picture', (('PIL', 'PIL.Image.open()'),)),
	(b'ftypheic', 4, 'a HEIC picture', HEIC), (b'ftypheix', 4, 'a HEIC picture', HEIC), (b'ftypmif1', 4, 'a HEIC picture', HEIC), (b'ftypheif', 4, 'a HEIC picture', HEIC),
	(b'ftypavif', 4, 'an AVIF picture', (('pillow_avif', 'PIL.Image.open() after import pillow_avif, of the package pillow-avif-plugin'),)),
	(b'ftyp', 4, 'a film or sound (MP4, MOV, M4A)', FILM), (b'\x1aE\xdf\xa3', 0, 'a film (MKV, WebM)', FILM), (b'AVI ', 8, 'a film (AVI)', FILM),
	(b'WAVE', 8, 'sound (WAV)', (('scipy', 'scipy.io.wavfile.read()'), ('wave', 'wave.open()'))), (b'OggS', 0, 'sound (Ogg)', SOUND), (b'fLaC', 0, 'sound (FLAC)', SOUND),
	(b'ID3\x02', 0, 'sound (MP3)', SOUND), (b'ID3\x03', 0, 'sound (MP3)', SOUND), (b'ID3\x04', 0, 'sound (MP3)', SOUND),
	(b'CDF\x01', 0, 'netCDF data', (('scipy', 'scipy.io.netcdf_file()'),)), (b'CDF\x02', 0, 'netCDF data', (('scipy', 'scipy.io.netcdf_file()'),)),
	(b'SIMPLE  =', 0, 'FITS data', (('astropy', 'astropy.io.fits.open() of the package astropy'),)),
	(b'DICM', 128, 'a DICOM picture', (('pydicom', 'pydicom.dcmread() of the package pydicom'),)),
	(b'\0\0\x27\x0a', 0, 'a shapefile', (('geopandas', 'geopandas.read_file() of the package geopandas'),)),
	(b'SQLite format 3', 0, 'an SQLite database', (('sqlite3', 'sqlite3.connect()'),)),
	(b'\x89HDF', 0, 'an HDF5 file', (('h5py', 'h5py.File()'), ('tables', 'pandas.read_hdf()'))),
	(b'\x93NUMPY', 0, 'a NumPy array', (('numpy', 'numpy.load()'),)),
	(b'\xd0\xcf\x11\xe0', 0, 'an old Office file (xls, doc, ppt)', (('xlrd', 'pandas.read_excel() for xls; nothing here reads doc and ppt, so ask for docx or pptx'),)),
	(b'ORC', 0, 'an ORC file', (('pyorc', 'pyorc.Reader() of the package pyorc'),)),
	(b'Obj\x01', 0, 'an Avro file', (('fastavro', 'fastavro.reader() on the file opened with "rb"'), ('polars', 'polars.read_avro()'))),
	(b'<stata_dta>', 0, 'Stata data', STATA), (b'\x71\x01\x01\0', 0, 'Stata data', STATA), (b'\x71\x02\x01\0', 0, 'Stata data', STATA),
	(b'\x72\x01\x01\0', 0, 'Stata data', STATA), (b'\x72\x02\x01\0', 0, 'Stata data', STATA), (b'\x73\x02\x01\0', 0, 'Stata data', STATA),
	(b'\xc2\xea\x81\x60\xb3\x14\x11\xcf', 12, 'SAS data', (('pandas', 'pandas.read_sas(path, format="sas7bdat")'),)),
	(b'HEADER RECORD*******LIB', 0, 'SAS data for transport', (('pandas', 'pandas.read_sas(path, format="xport")'),)),
	(b'$FL2', 0, 'SPSS data', SPSS), (b'$FL3', 0, 'SPSS data', SPSS),
	(b'MATLAB 5', 0, 'MATLAB data', (('scipy', 'scipy.io.loadmat()'),)),
	(b'MATLAB 7', 0, 'MATLAB data in HDF5', (('h5py', 'h5py.File()'),)),
	(b'DUCK', 8, 'a DuckDB database', (('duckdb', 'duckdb.connect()'),)),
	(b'RDX', 0, 'data of R', (('pyreadr', 'pyreadr.read_r() of the package pyreadr'),)),
	(b'7z\xbc\xaf', 0, 'a 7z archive', (('py7zr', 'py7zr.SevenZipFile() of the package py7zr'),)),
	(b'Rar!', 0, 'a RAR archive, which nothing here unpacks', ()),
	(b'\x04"M\x18', 0, 'lz4 data', (('lz4', 'lz4.frame.open(path, "rt")'),)),
	(b'II*\0', 0, 'a TIFF picture', (('PIL', 'PIL.Image.open()'),)),
	(b'MM\0*', 0, 'a TIFF picture', (('PIL', 'PIL.Image.open()'),)),
	(b'{\\rtf', 0, 'a text in RTF', (('striprtf', 'striprtf.striprtf.rtf_to_text() of the package striprtf'),)),
	(b'\x7fELF', 0, 'a program', ()),
	(b'\x80\x02', 0, 'a pickle', (('pickle', 'pickle.load() on the file opened with "rb"'),)),
	(b'\x80\x03', 0, 'a pickle', (('pickle', 'pickle.load() on the file opened with "rb"'),)),
	(b'\x80\x04\x95', 0, 'a pickle', (('pickle', 'pickle.load() on the file opened with "rb"'),)),
	(b'\x80\x05\x95', 0, 'a pickle', (('pickle', 'pickle.load() on the file opened with "rb"'),)),
	(b'ustar', 257, 'a tar archive', (('tarfile', 'tarfile.open()'),)),
	(b'\xff\xfe', 0, 'text in UTF-16', UTF_16),
	(b'\xfe\xff', 0, 'text in UTF-16', UTF_16),
)
# What the folders in a ZIP archive say that it is.
IN_ZIP = (
	('xl/workbook.bin', 'a binary Excel workbook (xlsb)', (('pyxlsb', 'pandas.read_excel(path, engine="pyxlsb")'),)),
	('xl/', 'an Excel workbook', (('openpyxl', 'pandas.read_excel()'),)),
	('word/', 'a Word document', (('docx', 'docx.Document() of python-docx'),)),
	('ppt/', 'a PowerPoint presentation', (('pptx', 'pptx.Presentation() of python-pptx'),)),
	('content.xml', 'an OpenDocument file', (('odf', 'pandas.read_excel(path, engine="odf") for tables'),)),
	('', 'a ZIP archive', (('zipfile', 'zipfile.ZipFile()'),)),
)


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
				return 'damaged or incomplete: it begins as a ZIP archive (so does xlsx, docx, pptx), and its list of files is missing. Give the file once more', ''
		else:
			names = [start for start, what, choices in IN_ZIP if start and start.encode() in head]
		for start, what, choices in IN_ZIP:
			if any(name.startswith(start) for name in names) or not start:
				return what if start or not names else '%s of %s' % (what, few(names)), reader(choices)
	if head[:4] == b'\xd0\xcf\x11\xe0' and path and 'EncryptedPackage'.encode('utf-16-le') in beginning(path):
		return 'an Office file with a password', 'msoffcrypto (the package msoffcrypto-tool), which takes the password off'
	for magic, at, what, choices in KINDS:
		if head[at:at + len(magic)] == magic:
			names = names_in_tar(path) if path and (what.endswith(' data') and at == 0 or 'tar' in what) else []
			return ('a tar archive of %s' % few(names), 'tarfile.open()') if names else (what, reader(choices))
	return None


def few(names):
	return ', '.join(name[:NAME_CHARS] for name in names[:NAMES_IN]) + (', ...' if len(names) > NAMES_IN else '')


def names_in_tar(path):
	"""The first files of a tar archive, packed or not; [] if it is none. Programs see the name alone, such as data.csv.gz."""
	import tarfile
	try:
		with tarfile.open(path) as archive:
			return [member.name for member, _ in zip(archive, range(NAMES_IN + 1)) if member.isfile()]
	except Exception:  # of each kind of packing, its own
		return []


def no_table(paths, name):
	"""What a file is that was read as CSV without an error: the first column has NAME then."""
	for path in paths:
		data = beginning(path)
		kind = kind_of(path, data[:HEAD_BYTES])
		if not kind and name[:1] in ('{', '['):
			kind = text_kind(data, len(data) < DATA_LOOKED)
			kind = kind if kind and 'JSON' in kind[0] else None
		if kind and ('JSON' in kind[0] or kind[0].startswith('a tar archive')):
			return '%s is %s, no CSV: read it with %s' % (path, kind[0], kind[1])
	return ''


def beginning(path):
	with open(path, 'rb') as f:
		return f.read(DATA_LOOKED)


def name_of_file(value):
	"""The name of an open file; None of anything else. An object that is half made may fail when it is asked."""
	try:
		return getattr(value, 'name', None) if hasattr(value, 'read') else None
	except Exception:
		return None


def lacking_letters(error):
	"""Advice for a text that was to be written in an encoding that has not all of its letters."""
	if error.encoding.lower().replace('_', '-').startswith('utf'):
		return ''  # halves of surrogate pairs: no encoding has them
	return 'the encoding %s does not have all letters of the text: encoding="utf-8" has (for Excel "utf-8-sig"), and errors="replace" writes ? for those that are missing.' % error.encoding


def text_kind(data, whole):
	"""(what the text DATA is, what reads it), or None. WHOLE: nothing of it is missing."""
	import json
	text = data.decode('utf-8-sig', 'replace').lstrip()
	start = text[:2000].lower()
	if 'schemas-microsoft-com:office:spreadsheet' in start:
		return 'a workbook in the XML of Excel 2003', 'rows = [[cell.text for cell in row.iter("{*}Data")] for row in lxml.etree.parse(path).iter("{*}Row")]'
	if start.startswith(('<!doctype html', '<html')) or '<table' in start or '<body' in start:
		return 'an HTML page', 'pandas.read_html(), if it has tables' if '<table' in text.lower() else ''
	if '<svg' in start:
		return 'a picture in SVG, which Pillow and matplotlib do not read', 'xml.etree.ElementTree'
	if start.startswith('<?xml') or start[:1] == '<':
		return 'XML', 'pandas.read_xml() or xml.etree.ElementTree'
	if start.startswith('version https://git-lfs'):
		return 'a pointer of Git LFS, without the data', ''
	lines = [line for line in text.splitlines()[:LINES_COUNTED + 1] if line.strip()]
	if not whole:
		lines = lines[:LINES_COUNTED]
	if start[:1] in '{[' and start:
		try:
			json.loads(text if whole else '')
			return 'JSON', 'json.load() or pandas.read_json()'
		except ValueError:
			pass
		try:
			for line in lines[:3]:
				json.loads(line)
			if len(lines) > 1:
				return 'JSON lines, one value in each line', 'pandas.read_json(path, lines=True), or json.loads() of each line'
		except ValueError:
			pass
		import ast
		try:
			ast.literal_eval(text if whole and len(text) < 100000 else '')
			return 'no JSON but a literal of Python (single quotes, True, None)', 'ast.literal_eval()'
		except (ValueError, SyntaxError, MemoryError, RecursionError):
			return nearly_json(text) if whole else None
	around = start.startswith(AROUND_JSON) or re.match(r'[\w.$]+ ?(?:= ?)?[(\[{]', start)
	return (nearly_json(text) if whole and around else None) or separated(lines)


def nearly_json(text):
	"""The same of a text that is JSON but for something before, between or behind it."""
	import json

	def is_json(changed):
		try:
			json.loads(changed)
			return True
		except ValueError:
			return False
	plain = COMMENT.sub(lambda found: found.group(1) or '', text)
	if is_json(TOO_MANY.sub(r'\1', plain)):
		return ('JSON with comments' if plain != text else 'JSON with commas too many'), 'json.loads() after re.sub() has taken them out' + (
			'' if plain != text else ': re.sub(r",(\\s*[]}])", r"\\1", text)')
	begin = min([text.find(sign) for sign in '{[' if sign in text] or [-1])
	end = max(text.rfind('}'), text.rfind(']')) + 1
	if begin > 0 and is_json(text[begin:end]):
		return 'JSON in a line of JavaScript', 'json.loads(text[%d:%d])' % (begin, end - len(text) if end < len(text) else end)
	try:
		value, at = json.JSONDecoder().raw_decode(text)
		rest = text[at:].strip()
		if rest[:1] in ('{', '[', ','):
			json.JSONDecoder().raw_decode(rest.lstrip(', '))
			return 'JSON, several values one after another', 'value, at = json.JSONDecoder().raw_decode(text, at) in a loop, with blanks and commas left out between'
		return 'JSON with something else behind it, from character %d on' % at, 'json.JSONDecoder().raw_decode(text), which reads the first value'
	except ValueError:
		return None


def separated(lines):
	"""A table: each line has the same number of a separator."""
	if len(lines) > 1:
		for one in SEPARATORS:
			if lines[0].count(one) and len({line.count(one) for line in lines}) == 1:
				return 'text with %r between columns' % one, 'pandas.read_csv(path, sep=%r) or csv.reader(file, delimiter=%r)' % (one, one)
	return None


def is_yaml(error, data):
	"""True if json has been given the text DATA, and it looks like YAML."""
	if type(error).__name__ != 'JSONDecodeError':
		return False
	lines = [line for line in data[:HEAD_BYTES].decode('utf-8', 'replace').splitlines() if line.strip() and line.lstrip()[0] != '#'][:YAML_LINES]
	return len(lines) > 1 and all(re.match(r'---|\s*(?:- )?[\w.-]+:(?:\s|$)|\s*- ', line) for line in lines[:-1])
