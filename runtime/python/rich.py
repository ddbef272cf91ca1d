# SPDX-License-Identifier: Apache-2.0
"""What a run shows besides text: display(), the value of a last expression, and IPython.display where the real one is not
installed. Each thing is a bundle, {MIME type: data}, as in Jupyter.

A bundle is a record in the file of the result, behind its text (the file is sparse). Its text/plain is printed as well,
between two marks that the reader of stdout removes: they tell where it was shown. A forked process has the same file
and offset, so its records follow ours. Everything is bounded here so that nothing large is written for nothing; the reader
checks it again.

Runs in the dictionary of boot.py, when it is needed; in the zygote it is there from the start."""
import builtins
import os

RECORDS_AT = 32 << 20  # where records begin; engine/front/inside/records.h has the same
PART_MAX = 1 << 20  # bytes of one representation
RECORD_MAX = 2 << 20
RECORDS_BYTES = 4 << 20  # of all records of a run; records.h has the same
RECORDS_N = 1000
DISPLAY, RESULT, UPDATE, CLEAR = 1, 2, 3, 4
BEGIN, END = '\033_caisson:B\033\\', '\033_caisson:E\033\\'

ROWS, COLUMNS, CELLS, CELL_CHARS = 1000, 100, 20000, 500  # of a table
TABLE_BYTES = 256 << 10
TABLE = 'application/vnd.caisson.table+json'

REPRS = (
	('text/html', '_repr_html_'), ('image/png', '_repr_png_'), ('image/jpeg', '_repr_jpeg_'), ('image/svg+xml', '_repr_svg_'),
	('text/markdown', '_repr_markdown_'), ('text/latex', '_repr_latex_'), ('application/json', '_repr_json_'),
	('application/javascript', '_repr_javascript_'),
)


# Records ----------------------------------------------------------------------------------------------


def as_bytes(mime, data):
	"""DATA of a bundle as it is kept: pictures as they are, everything else as UTF-8."""
	if isinstance(data, str) and mime.startswith('image/') and mime != 'image/svg+xml':
		import base64
		return base64.b64decode(data)
	if isinstance(data, (bytes, bytearray, memoryview)):
		return bytes(data)
	if isinstance(data, (list, tuple)) and not mime.endswith('json'):  # lines, as notebooks have them
		data = ''.join(data)
	if not isinstance(data, str):
		import json
		data = json.dumps(data, ensure_ascii=False, default=str)
	return data.encode('utf-8', 'replace')


def part(name, data, left_out=None):
	"""LEFT_OUT: how many bytes it would have had; there is no data then."""
	import struct
	name = name.encode('ascii', 'replace')[:200]
	size = len(data) if left_out is None else min(left_out, 0xffffffffffff)
	return struct.pack('=HHQ', len(name), left_out is not None, size) + name + data


def record(kind, data, **more):
	"""Writes a record. DATA: {MIME type: data}; MORE: what is no data (file, id, wait). False: the run has shown too much."""
	import struct
	global rich_n, rich_bytes
	if rich_fd < 0 or rich_n >= RECORDS_N:
		return False
	parts = [(str(k), v) for k, v in more.items() if v]
	body = b''.join(part(k, str(v).encode('utf-8', 'replace')[:1000]) for k, v in parts)
	for mime, value in list(data.items())[:16]:
		value = as_bytes(str(mime), value)
		fits = len(value) <= PART_MAX and len(body) + len(value) < RECORD_MAX and rich_bytes + len(value) <= RECORDS_BYTES
		body += part(str(mime), value) if fits else part(str(mime), b'', len(value))
	if os.lseek(rich_fd, 0, os.SEEK_CUR) < RECORDS_AT:
		os.lseek(rich_fd, RECORDS_AT, os.SEEK_SET)
	os.write(rich_fd, struct.pack('=4sII', b'CRR1', kind, len(body)) + body)
	rich_n += 1
	rich_bytes += len(body)
	return True


def mark(text=''):
	"""Tells where the last record was shown. TEXT is what was printed of it."""
	try:
		sys.__stdout__.write(BEGIN + text + END)
	except Exception:  # the program has closed it: the record is shown at the end
		pass


def show_record(kind, data, text, **more):
	try:
		kept = record(kind, data, **more)
	except Exception:
		kept = False
	if kept and sys.stdout is sys.__stdout__:
		mark(text)
		return
	if kept:
		mark()
	if text and sys.stdout is not None:
		sys.stdout.write(text)


# Bundles ----------------------------------------------------------------------------------------------


def bundle_of(value):
	"""Returns what the value shows of itself; text/plain is always there."""
	if isinstance(value, type):
		return {'text/plain': repr(value)}
	data = {'text/plain': shown_text(value)}
	kind = type(value)
	whole = getattr(kind, '_repr_mimebundle_', None)
	if callable(whole):
		try:
			found = value._repr_mimebundle_(include=None, exclude=None)
			found = found[0] if isinstance(found, tuple) else found
			data.update((k, v) for k, v in (found or {}).items() if v is not None)
		except Exception:
			pass
	for mime, method in REPRS:
		if mime in data or not callable(getattr(kind, method, None)):
			continue
		try:
			found = getattr(value, method)()
			found = found[0] if isinstance(found, tuple) else found
		except Exception:
			continue
		if found is not None:
			data[mime] = found
	base = getattr(sys.modules.get('matplotlib.figure'), 'Figure', None)
	if base is not None and isinstance(value, base):
		try:
			data['image/png'] = figure_png(value)
		except Exception:
			pass
	table = table_of(value)
	if table is not None:
		data[TABLE] = table
	return data


def shown_text(value):
	text = repr(value) if not displaying else page_text(value) or repr(value)
	return text if isinstance(text, str) else str(text)


def figure_png(figure):
	import io
	out = io.BytesIO()
	figure.savefig(out, format='png', bbox_inches='tight')
	return out.getvalue()


def cell_value(value):
	"""A cell of a table, as the preview of files has it."""
	if value is None or isinstance(value, bool):
		return value
	if isinstance(value, str):
		return value[:CELL_CHARS]
	if isinstance(value, int) and abs(value) < 1 << 53:
		return int(value)
	if isinstance(value, float):
		return None if value != value else float(value) if value - value == 0 else str(value)
	if hasattr(value, 'item') and not getattr(value, 'shape', True):  # a number of numpy
		return cell_value(value.item())
	text = str(value)
	return None if text in ('NaT', '<NA>') else text[:CELL_CHARS]


def table_of(value):
	"""The first rows of a DataFrame or Series of pandas or polars, with the members of a preview of a file; None for other
	values."""
	module = str(type(value).__module__)
	if not module.startswith(TABLE_MODULES):
		return None
	try:
		found = pandas_table(value) if module.startswith('pandas.') else polars_table(value)
	except Exception:
		return None
	if found is None:
		return None
	import json
	columns, lists, total, width = found
	head = json.dumps({'kind': 'table', 'columns': columns, 'total': total, 'width': width, 'offset': 0}, ensure_ascii=False)
	lines, left = [], TABLE_BYTES - len(head.encode('utf-8', 'replace'))
	for row in zip(*lists):
		line = json.dumps([cell_value(v) for v in row], ensure_ascii=False)
		left -= len(line.encode('utf-8', 'replace')) + 1
		if left < 0:
			break
		lines.append(line)
	return head[:-1] + ', "rows": [' + ','.join(lines) + ']}'


def column(name, kind):
	return {'name': str(name)[:CELL_CHARS], 'type': str(kind)}


def pandas_table(value):
	pandas = sys.modules['pandas']
	if isinstance(value, pandas.Series):
		value = value.to_frame('value' if value.name is None else value.name)
	if not isinstance(value, pandas.DataFrame):
		return None
	total, width = value.shape
	value = value.iloc[:, :COLUMNS]
	value = value.iloc[:max(1, min(ROWS, CELLS // max(1, value.shape[1])))]
	index = value.index
	columns = [column(index.names[i] if index.names[i] is not None else '', 'index') for i in range(index.nlevels)]
	lists = [list(index.get_level_values(i)) for i in range(index.nlevels)]
	for i, name in enumerate(value.columns):
		columns.append(column(', '.join(map(str, name)) if isinstance(name, tuple) else name, value.dtypes.iloc[i]))
		lists.append(list(value.iloc[:, i]))
	return columns, lists, total, width


def polars_table(value):
	polars = sys.modules['polars']
	if isinstance(value, polars.Series):
		value = value.to_frame()
	if not isinstance(value, polars.DataFrame):
		return None
	total, width = value.shape
	value = value[:, :COLUMNS].head(max(1, min(ROWS, CELLS // max(1, min(width, COLUMNS)))))
	return [column(n, d) for n, d in zip(value.columns, value.dtypes)], [c.to_list() for c in value.get_columns()], total, width


def show_result(value):
	"""The value of a last expression; its text is written already. No mark: it belongs to the end."""
	data = bundle_of(value)
	del data['text/plain']
	if data:
		record(RESULT, data)


# As IPython has it ------------------------------------------------------------------------------------


class DisplayHandle:
	def __init__(self, display_id=None):
		self.display_id = display_id or os.urandom(16).hex()

	def __repr__(self):
		return '<%s display_id=%s>' % (type(self).__name__, self.display_id)

	def display(self, obj, **kwargs):
		display(obj, display_id=self.display_id, **kwargs)

	def update(self, obj, **kwargs):
		update_display(obj, display_id=self.display_id, **kwargs)


def wanted(data, include, exclude):
	return {k: v for k, v in data.items() if k == 'text/plain' or not (include and k not in include or exclude and k in exclude)}


def is_drawn(value):
	"""A figure or a picture that display.py draws apart, with limits, and saves for the model to see. Of pictures there may be
	more than it saves: the others are only records."""
	return displaying and (is_figure(value) or is_page(value) or (is_picture(value) and may_draw()))


def display(*objs, include=None, exclude=None, metadata=None, transient=None, display_id=None, raw=False, clear=False, **kwargs):
	"""Shows the values, as in a notebook: as text here, and with all that they show of themselves to people."""
	handle = DisplayHandle(None if display_id is True else display_id) if display_id is not None else None
	if clear:
		clear_output(wait=True)
	for value in objs:
		if not raw and display_id is None and is_drawn(value):
			if not is_picture(value):
				sys.stdout.write(shown_text(value) + '\n')
			picture(lambda value=value: [(value, 'figure' if is_figure(value) else 'page')])
			continue
		data = dict(value) if raw else wanted(bundle_of(value), include, exclude)
		text = data.get('text/plain')
		show_record(DISPLAY, data, '' if text is None else '%s\n' % (text,), id=handle and handle.display_id)
	return handle


def update_display(obj, *, display_id, **kwargs):
	data = dict(obj) if kwargs.get('raw') else bundle_of(obj)
	text = data.get('text/plain')
	show_record(UPDATE, data, '' if text is None else '%s\n' % (text,), id=display_id)


def publish_display_data(data, metadata=None, *, transient=None, update=False, **kwargs):
	display(data, raw=True)


def clear_output(wait=False):
	show_record(CLEAR, {}, '', wait=wait and 1)


class Events:
	def register(self, event, function):
		pass

	unregister = trigger = register


class Shell:
	"""What get_ipython() returns: enough for code that was written for a notebook."""

	def __init__(self):
		self.events = Events()
		self.config = {}
		self.display_pub = self
		self.execution_count = 1

	@property
	def user_ns(self):
		return sys.modules['__main__'].__dict__

	def publish(self, data, metadata=None, **kwargs):
		display(data, raw=True)

	def clear_output(self, wait=False):
		clear_output(wait)

	def run_line_magic(self, name, line, _stack_depth=1):
		return run_line('%' + name, line)

	def run_cell_magic(self, name, line, cell):
		return run_cell_magic(name, line, cell)

	def magic(self, line):
		name, _, rest = line.lstrip('%').partition(' ')
		return run_line('%' + name, rest)

	def system(self, command):
		return shell(command)

	def getoutput(self, command, **kwargs):
		return shell_lines(command)

	def run_cell(self, code, **kwargs):
		self.ex(code)

	def push(self, variables, interactive=True):
		self.user_ns.update(variables)

	def nothing(self, *args, **kwargs):
		pass

	enable_gui = enable_matplotlib = enable_pylab = set_next_input = register_magic_function = register_magics = set_custom_exc = nothing

	def ev(self, expression):
		return eval(expression, self.user_ns)

	def ex(self, code):
		exec(code, self.user_ns)


class ShellKind(type):
	def __setattr__(cls, name, value):
		type.__setattr__(cls, name, value)
		if name == 'ast_node_interactivity' and value != 'last_expr':
			tell('only the value of the last expression is shown here: print() the others.')


class InteractiveShell(Shell, metaclass=ShellKind):
	@classmethod
	def instance(cls, *args, **kwargs):
		return get_ipython()


the_shell = []


def get_ipython():
	if not the_shell:
		the_shell.append(Shell())
	return the_shell[0]


def offer_names():
	"""IPython has these two everywhere."""
	for name, function in ('display', display), ('get_ipython', get_ipython):
		if not hasattr(builtins, name):
			setattr(builtins, name, function)


def display_classes(space):
	class DisplayObject:
		_mime = None

		def __init__(self, data=None, url=None, filename=None, metadata=None):
			if data is not None and filename is None and isinstance(data, (str, os.PathLike)) and self._takes_file(str(data)):
				filename, data = os.fspath(data), None
			self.data, self.url, self.filename, self.metadata = data, url, filename, metadata or {}
			self.reload()

		_binary = False

		def _takes_file(self, text):
			return False

		def reload(self):
			if self.filename is not None:
				with open(self.filename, 'rb' if self._binary else 'r', **({} if self._binary else {'encoding': 'utf-8'})) as f:
					self.data = f.read()

		def _repr_mimebundle_(self, include=None, exclude=None):
			return {self._mime: self.data} if self._mime and self.data is not None else {}

		def __repr__(self):
			return '<IPython.core.display.%s object>' % type(self).__name__

	def text_class(name, mime):
		return type(name, (DisplayObject,), {'_mime': mime, '__module__': 'IPython.core.display'})

	class Image(DisplayObject):
		_binary = True

		def __init__(self, data=None, url=None, filename=None, format=None, embed=None, width=None, height=None, retina=False,
		             unconfined=False, metadata=None, alt=None):
			if isinstance(data, str) and data.startswith(('http://', 'https://')):
				url, data = data, None
			self.format, self.width, self.height, self.alt = format, width, height, alt
			super().__init__(data, url, filename, metadata)
			if self.url is not None and embed:
				from urllib.request import urlopen
				self.data = urlopen(self.url).read()

		def _takes_file(self, text):
			return len(text) < 4096 and os.path.isfile(text)

		def _repr_mimebundle_(self, include=None, exclude=None):
			data = self.data
			if data is None:
				return {}
			kind = self.format or ('jpeg' if data[:2] == b'\xff\xd8' else 'gif' if data[:4] == b'GIF8' else
			                       'webp' if data[8:12] == b'WEBP' else 'png')
			return {'image/' + {'jpg': 'jpeg'}.get(kind.lower(), kind.lower()): data}

	class SVG(DisplayObject):
		_mime = 'image/svg+xml'

		def _takes_file(self, text):
			return '<' not in text and os.path.isfile(text)

	class JSON(DisplayObject):
		_mime = 'application/json'

		def __init__(self, data=None, url=None, filename=None, expanded=False, metadata=None, root='root', **kwargs):
			super().__init__(data, url, filename, metadata)

		def reload(self):
			super().reload()
			if isinstance(self.data, (str, bytes)):
				import json
				self.data = json.loads(self.data)

	class Pretty(DisplayObject):
		def __repr__(self):
			return str(self.data)

	class IFrame:
		"""Nothing of another host is shown: the address stands there as text."""

		def __init__(self, src, width=None, height=None, **kwargs):
			self.src, self.width, self.height = src, width, height

		def __repr__(self):
			return '<IFrame %s>' % self.src

	class FileLink:
		def __init__(self, path, **kwargs):
			self.path = os.fspath(path)

		def __repr__(self):
			return self.path

	def other(name):
		"""What only a page of a notebook plays or lays out; data may be large, so nothing of it is kept."""
		if not name[:1].isupper():
			raise AttributeError(name)
		return type(name, (DisplayObject,), {'__module__': 'IPython.core.display', '__init__': lambda self, *args, **kwargs: self.__dict__.update(data=None)})

	def display_html(*objs, raw=False, **kwargs):
		for one in objs:
			display({'text/html': one} if raw else one, raw=raw)

	Math = type('Math', (DisplayObject,), {
		'_mime': 'text/latex', '__module__': 'IPython.core.display',
		'_repr_mimebundle_': lambda self, include=None, exclude=None: {'text/latex': '$\\displaystyle %s$' % str(self.data).strip('$')}})
	for one in DisplayObject, Image, SVG, JSON, Pretty, IFrame, FileLink:
		one.__module__ = 'IPython.core.display'
	space.update(
		DisplayObject=DisplayObject, TextDisplayObject=DisplayObject, HTML=text_class('HTML', 'text/html'),
		Markdown=text_class('Markdown', 'text/markdown'), Latex=text_class('Latex', 'text/latex'), Math=Math,
		Javascript=text_class('Javascript', 'application/javascript'), Image=Image, SVG=SVG, JSON=JSON, GeoJSON=JSON, Pretty=Pretty,
		IFrame=IFrame, FileLink=FileLink, FileLinks=FileLink, display=display, update_display=update_display,
		clear_output=clear_output, publish_display_data=publish_display_data, DisplayHandle=DisplayHandle,
		set_matplotlib_formats=lambda *a, **k: None, set_matplotlib_close=lambda *a, **k: None,
		__getattr__=other, display_html=display_html, display_markdown=lambda *a, **k: display(*a), display_png=lambda *a, **k: display(*a))


LIGHT = {'IPython': True, 'IPython.display': False, 'IPython.core': True, 'IPython.core.display': False,
         'IPython.core.display_functions': False, 'IPython.core.getipython': False, 'IPython.core.interactiveshell': False, 'ipywidgets': True,
         'ipywidgets.widgets': False, 'matplotlib_inline': True, 'matplotlib_inline.backend_inline': False, 'nest_asyncio': False,
         'ace_tools': False, 'caas_jupyter_tools': False}


def display_dataframe_to_user(name='', dataframe=None, *args, **kwargs):
	"""As a module of another sandbox has it, for programs that were written there."""
	if name:
		print(name)
	display(dataframe)


def light_backend(space):
	"""matplotlib's backend of notebooks: here it draws as Agg does."""
	import importlib
	space.update((k, v) for k, v in importlib.import_module('matplotlib.backends.backend_agg').__dict__.items() if k[:2] != '__')
	space.update(set_matplotlib_formats=lambda *a, **k: None, set_matplotlib_close=lambda *a, **k: None)


class LightLoader:
	@staticmethod
	def create_module(spec):
		return None

	@staticmethod
	def exec_module(module):
		space = module.__dict__
		if module.__name__.startswith('ipywidgets'):
			return light_widgets(space)
		if not module.__name__.startswith('IPython'):
			space.update(apply=lambda loop=None: None, display_dataframe_to_user=display_dataframe_to_user)
			return light_backend(space) if 'backend' in module.__name__ else None
		space['InteractiveShell'] = InteractiveShell
		if 'display' in module.__name__:
			display_classes(space) if module.__name__ == 'IPython.display' else \
				space.update({k: v for k, v in sys.modules['IPython.display'].__dict__.items() if k[:1] != '_'})
		else:
			space['get_ipython'] = get_ipython
		if module.__name__ == 'IPython':
			import importlib
			space.update(__version__='9.0.0', version_info=(9, 0, 0))
			importlib.import_module('IPython.display')  # becomes a name of the package


def light_spec(name):
	if name not in LIGHT:
		return None
	from importlib.machinery import ModuleSpec
	return ModuleSpec(name, LightLoader, is_package=LIGHT[name], origin='caisson')
