# SPDX-License-Identifier: Apache-2.0
"""Saves figures that a run has drawn and not saved in its workspace, so that plt.show() shows them: figures of
matplotlib as PNG, those of plotly as pages that need no network.

Runs in the dictionary of boot.py, only if RT_DISPLAY is set: watch() before the first submitted line,
finish() when the code has returned. A figure counts as saved if the code has used its canvas's print_figure,
which every savefig does. A descriptor in place of that method notices this, so no frame and no name of ours
is in a traceback. Hooks are set when pyplot or plotly is imported: a run that imports neither pays next to
nothing and shows nothing.

A forked child with limits of its own draws the pictures. A bug of matplotlib, a method of the program that
never returns, or too much memory costs the picture and not the run. A file is written whole or not at all,
under a name that no other file has: figure-1.png, result-1.png, result-1.html."""
FOLDER = '/mnt/data'
PICTURES_MAX = 20  # files of one run
NAMES_MAX = 10000
FILES_LOOKED, PORTS_TOLD = 1000, 4
CALL_S, RUN_S = 5.0, 15.0  # seconds for one call of show() or the end of a run; seconds for the whole run
PIXELS_MAX = 16000000
SIDE_MAX = 12000
FILE_MAX = 8 << 20  # bytes of a picture
PAGE_MAX = 32 << 20  # bytes of a page; 5 MiB of it are plotly's script
WHY_CHARS = 300
MEMORY_MORE = 1 << 30  # bytes of address space that drawing may add

# what a notebook asks a value for, best first, and the suffix of the file that shows the answer
METHODS = ('png', '_repr_png_'), ('svg', '_repr_svg_'), ('html', '_repr_html_'), ('md', '_repr_markdown_')

PICTURES = {b'\x89PNG': 'png', b'\xff\xd8\xff': 'jpg', b'GIF8': 'gif', b'RIFF': 'webp'}  # the first bytes of files that a model sees
LOOKED_MAX = 40  # new pictures that a picture is compared with
CLOCK_OF_FILES = 5  # CLOCK_REALTIME_COARSE, which the module time does not name
ALIKE = 6  # of 255: the mean difference to the same picture as JPEG

TABLES = 'pandas.core.', 'polars.dataframe.', 'polars.series.'  # the text of these says as much as their HTML

# of this run; sets of figures are weak; `pages` are digests, because figures of plotly cannot be in a set
drawn = {'files': 0, 'started': 0, 'seconds': 0.0, 'saved': None, 'shown': None, 'pages': set(), 'now': None, 'told': False, 'formulas': False, 'dollars': '', 'place': False, 'font': False, 'boxes': False, 'latex': False}  # now: saved or shown by this run


class Reached:
	"""Replaces a method: notes for which figure the method was asked for, and returns the method itself."""

	def __init__(self, method):
		self.method = method

	def __get__(self, canvas, kind=None):
		if canvas is not None:
			try:
				drawn['saved'].add(canvas.figure)
				drawn['now'].add(canvas.figure)
			except Exception:
				pass
		return self.method.__get__(canvas, kind)


def is_page(value):
	"""True for a figure of plotly."""
	base = getattr(sys.modules.get('plotly.basedatatypes'), 'BaseFigure', None)
	return base is not None and isinstance(value, base)


def is_figure(value):
	"""True for a figure of matplotlib."""
	base = getattr(sys.modules.get('matplotlib.figure'), 'Figure', None)
	return base is not None and isinstance(value, base)


def picture_data(value):
	"""The bytes of an Image of IPython.display; None for other values."""
	kind = type(value)
	data = getattr(value, 'data', None) if kind.__name__ == 'Image' and str(kind.__module__).startswith('IPython.') else None
	return data if isinstance(data, bytes) and kind_of_picture(data) else None


def is_picture(value):
	"""True for an Image of IPython.display that has its data, and for one of Pillow."""
	base = getattr(sys.modules.get('PIL.Image'), 'Image', None)
	return picture_data(value) is not None or base is not None and isinstance(value, base)


def may_draw():
	return drawn['files'] < PICTURES_MAX and drawn['seconds'] < RUN_S


def kind_of_picture(data):
	return next((suffix for first, suffix in PICTURES.items() if data.startswith(first)), None)


def methods_of(value):
	"""Returns the METHODS that a value has."""
	kind = type(value)
	if str(kind.__module__).startswith(TABLES):
		return []
	return [(suffix, method) for suffix, method in METHODS if callable(getattr(kind, method, None))]


def has_picture(value):
	"""Whether there may be more to show of a value than its text. Drawing needs a fork, which costs several times
	as much as a statement, so numbers, texts and tables do without."""
	try:
		return is_page(value) or is_figure(value) or picture_data(value) is not None or bool(methods_of(value))
	except Exception:  # of the program's own metaclass
		return False


def page_text(value):
	"""What stands in the place of repr(), which has all data of the figure; None for other values."""
	if not is_page(value):
		return None
	kinds = [str(getattr(trace, 'type', '')) for trace in value.data]
	return 'plotly figure with %d trace%s%s' % (len(kinds), '' if len(kinds) == 1 else 's',
	                                            ': ' + ', '.join(kinds[:10]) if kinds else '')


def page_of(figure):
	page = sys.modules['plotly.io'].to_html(figure, include_plotlyjs=True, full_html=True, div_id='figure')
	return page.encode('utf-8', 'replace')


def watch():
	import time
	# by the clock that the times of files come from: an earlier run's file must not pass for one of this run
	drawn.update(files=0, started=time.clock_gettime_ns(CLOCK_OF_FILES), seconds=0.0, told=False, formulas=False, dollars='', place=False, font=False, boxes=False, latex=False)
	if drawn['now'] is not None:
		drawn['now'].clear()
	try:
		for name in [name for name in hooks if name in sys.modules]:
			hooks.pop(name)(sys.modules[name])
		if hooks and Finder not in sys.meta_path:
			sys.meta_path.insert(0, Finder)
	except Exception:
		pass


def figures(at_end):
	"""Returns the open figures that have something in them and were not saved. AT_END leaves out those that
	were shown, too."""
	managers = sys.modules['matplotlib._pylab_helpers'].Gcf.figs
	found = [managers[number].canvas.figure for number in sorted(managers)]
	return [f for f in found if f not in drawn['saved'] and not (at_end and f in drawn['shown'])
	        and len(f.get_children()) > 1]


def finish(values=(), close=False):
	"""The code has returned. VALUES are objects to show as well; CLOSE closes all figures."""
	plotted = drawn['saved'] is not None

	def wanted():
		found = [(figure, 'figure') for figure in figures(True)] if plotted else []
		shown = [figure for figure, kind in found]
		return found + [(value, 'result') for value in values if not any(value is figure for figure in shown)
		                and not (plotted and is_figure(value) and value in drawn['now'])]

	if plotted or values:
		picture(wanted)
	if plotted and close:
		try:
			sys.modules['matplotlib.pyplot'].close('all')
		except Exception:
			pass
	if not close and notebook:
		try:
			tell_servers()
		except Exception:
			pass


def tell_servers():
	"""A server in a daemon thread ends with the run, and the last words of its program often say that it runs."""
	threading, socket = sys.modules.get('threading'), sys.modules.get('socket')
	if not threading or not socket or threading.active_count() < 2:
		return
	others = [thread for thread in threading.enumerate() if thread.daemon]
	ports = listening(socket) if others else []
	for thread in others:  # shutdown() has ended one a moment ago
		thread.join(0.02 if ports else 0)
	if ports and any(thread.is_alive() for thread in others):
		sys.stderr.write('Note: the server on port %s ended with this run, as daemon threads do.\n' % ', '.join(map(str, ports)))


def listening(socket):
	"""The ports on which this process takes connections."""
	import os
	found = set()
	for name in os.listdir('/proc/self/fd')[:FILES_LOOKED]:
		try:
			if os.readlink('/proc/self/fd/' + name).startswith('socket:'):
				with socket.socket(fileno=os.dup(int(name))) as one:
					if one.family in (socket.AF_INET, socket.AF_INET6) and one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
						found.add(one.getsockname()[1])
		except OSError:
			pass
	return sorted(found)[:PORTS_TOLD]


def picture(wanted):
	"""Draws and saves the objects that WANTED() returns: [(object, name)]. Never raises."""
	import os
	import time
	started = time.monotonic()
	left = min(CALL_S, RUN_S - drawn['seconds'])
	try:
		objects = wanted()[:PICTURES_MAX - drawn['files']]
		if objects and left > 0:
			draw_apart(os, objects, left)
	except BaseException:  # a signal handler may raise anything
		pass
	drawn['seconds'] += time.monotonic() - started


def draw_apart(os, objects, seconds):
	import select
	import signal
	import warnings
	if notebook:
		notebook_later()
	read, write = os.pipe()
	handler = signal.getsignal(signal.SIGCHLD)
	pid = -1
	try:
		quiet(signal, signal.SIG_DFL)
		with warnings.catch_warnings():
			warnings.simplefilter('ignore')  # the warning about threads and fork()
			pid = os.fork()
		if pid == 0:
			draw(os, objects, write)
		os.close(write)
		write = -1
		said = b''
		import time
		end = time.monotonic() + seconds
		while time.monotonic() < end and select.select([read], [], [], max(0, end - time.monotonic()))[0]:
			data = os.read(read, 4096)
			if not data:
				break
			said += data
		note(objects, said)
	finally:
		if pid == 0:
			os._exit(1)
		os.close(read)
		if write >= 0:
			os.close(write)
		if pid > 0:
			end_child(os, signal, pid)
		quiet(signal, handler)


def quiet(signal, handler):
	"""Sets the handler of SIGCHLD: the program's own handler must not learn of our child."""
	try:
		signal.signal(signal.SIGCHLD, handler)
	except (ValueError, TypeError):  # not the main thread, or a handler that was set in C
		pass


def end_child(os, signal, pid):
	try:
		os.kill(pid, signal.SIGKILL)
		os.waitpid(pid, 0)
	except OSError:
		pass
	try:
		os.unlink('%s/.caisson-%d' % (FOLDER, pid))
	except OSError:
		pass


def note(objects, said):
	"""Reads the child's report: a line INDEX DIGEST for each file that it has made, INDEX ! and why there is none, INDEX = if the
	program has saved the same picture, or INDEX $ and a text that was drawn as mathematics."""
	for line in said.decode('utf-8', 'replace').splitlines():
		first, sign, why = line.split(' ', 2) if line.count(' ') > 1 else (line, '', '')
		if sign == '!':
			drawn['shown'][objects[int(first)][0]] = None  # the end of the run would try once more
			if notebook and sys.stderr is not None:
				sys.stderr.write('Note: a figure could not be drawn: %s%s\n' % (why, DOLLARS if 'Parse' in why else ''))
			continue
		if sign == '$':
			tell_dollars(why)
			continue
		if sign == '=':
			if notebook:
				mark()
			continue
		index, digest = (int(word) for word in line.split())
		what, name = objects[index]
		drawn['files'] += 1
		if name == 'figure':
			drawn['shown'][what] = digest
			drawn['now'].add(what)
			if notebook and 'matplotlib.animation' in sys.modules:
				tell_animation(what)
		elif is_page(what):
			drawn['pages'].add(digest)
		if notebook and name != 'result':
			mark()


# In the child -----------------------------------------------------------------------------------------


def draw(os, objects, report):
	try:
		restrict(os)
		for index, (what, name) in enumerate(objects):
			try:
				draw_one(os, index, what, name, report)
			except Exception as e:
				if name == 'figure':
					tell_parent(os, report, index, '!', '%s: %s' % (type(e).__name__, e))
		if drawn['dollars']:
			tell_parent(os, report, 0, '$', drawn['dollars'])
	finally:
		os._exit(0)


def tell_parent(os, report, index, sign, text):
	os.write(report, ('%d %s %s\n' % (index, sign, ' '.join(text.split())[:WHY_CHARS])).encode('utf-8', 'replace'))


def restrict(os):
	import signal
	import warnings
	null = os.open('/dev/null', os.O_RDWR)
	for fd in 0, 1, 2:
		os.dup2(null, fd)
	sys.stdin = sys.stdout = sys.stderr = None
	signal.set_wakeup_fd(-1)
	signal.signal(signal.SIGTERM, signal.SIG_DFL)
	warnings.simplefilter('ignore')
	sys.settrace(None)
	try:
		import resource
		with open('/proc/self/statm') as f:
			most = int(f.read().split()[0]) * resource.getpagesize() + MEMORY_MORE
		resource.setrlimit(resource.RLIMIT_AS, (most, most))
	except (ImportError, OSError, ValueError):
		pass


def draw_one(os, index, what, name, report):
	import zlib
	for suffix, data in [('png', png_of(what))] if name == 'figure' else [('png', png_of_picture(what))] if name == 'picture' else parts_of(what):
		if not isinstance(data, bytes) or not 0 < len(data) <= (PAGE_MAX if suffix == 'html' else FILE_MAX):
			continue
		digest = zlib.crc32(data)
		if name == 'figure' and drawn['shown'].get(what) == digest or is_page(what) and digest in drawn['pages']:
			continue
		file = saved_already(os, suffix, data) if name != 'figure' else None
		if file is not None:
			if notebook:
				keep_bundle(name, suffix, data, file, what)
			if name != 'result':
				tell_parent(os, report, index, '=', '')
			continue
		file = place(os, 'result' if name == 'result' else 'figure', suffix, data)
		if notebook:
			keep_bundle(name, suffix, data, file, what)
		os.write(report, b'%d %d\n' % (index, digest))


def keep_bundle(name, suffix, data, file, what):
	"""What was drawn is also a bundle, for clients that know no files."""
	types = {'png': 'image/png', 'jpg': 'image/jpeg', 'gif': 'image/gif', 'webp': 'image/webp', 'svg': 'image/svg+xml', 'html': 'text/html', 'md': 'text/markdown'}
	try:
		notebook_later()
		more = said_of(what) if errors_are_records else {}
		record(RESULT if name == 'result' else DISPLAY, {types[suffix]: data, **more}, file=file)
	except Exception:
		pass


def said_of(figure):
	"""What a client that takes records of everything gets with the picture of a figure."""
	if not is_figure(figure):
		return {}
	more = {'text/plain': repr(figure)}
	try:
		chart = chart_of(figure)
	except Exception:  # a kind of artist that charts.py does not expect
		chart = None
	return {**more, CHART: chart} if chart else more


def saved_already(os, suffix, data):
	"""The name of a file of this run that has the same picture, which the model sees as it is; None if there is none."""
	if suffix not in PICTURES.values():
		return None
	names = []
	with os.scandir(FOLDER) as entries:
		for entry in entries:
			if entry.name.lower().endswith(('.png', '.jpg', '.jpeg', '.gif', '.webp')) and entry.is_file(follow_symlinks=False) and entry.stat().st_mtime_ns >= drawn['started']:
				names.append(entry.name)
	for name in sorted(names)[:LOOKED_MAX]:
		try:
			with open('%s/%s' % (FOLDER, name), 'rb') as f:
				if is_alike(data, f.read(FILE_MAX)):
					return name
		except Exception:  # no picture, or one that is not complete
			pass
	return None


def is_alike(one, other):
	if one == other:
		return True
	if b'GIF8' in (one[:4], other[:4]):
		return False
	import io
	from PIL import Image, ImageChops, ImageStat
	one, other = Image.open(io.BytesIO(one)), Image.open(io.BytesIO(other))
	if one.size != other.size or one.size[0] * one.size[1] > PIXELS_MAX:
		return False
	mode = 'RGB' if 'JPEG' in (one.format, other.format) else 'RGBA'
	means = ImageStat.Stat(ImageChops.difference(one.convert(mode), other.convert(mode))).mean
	return max(means) <= (ALIKE if mode == 'RGB' else 0)


def png_of(figure):
	import io
	width, height = figure.get_size_inches()
	dpi = min(figure.dpi, (PIXELS_MAX / (width * height)) ** 0.5, SIDE_MAX / max(width, height))
	out = io.BytesIO()
	figure.savefig(out, format='png', dpi=dpi, bbox_inches='tight')
	return out.getvalue()


def png_of_picture(value):
	"""Of a picture of Pillow, or an array of OpenCV."""
	if hasattr(value, 'save'):
		import io
		out = io.BytesIO()
		value = value if value.mode in ('1', 'L', 'LA', 'I', 'P', 'RGB', 'RGBA') else value.convert('RGB')
		value.save(out, format='PNG')
		return out.getvalue()
	if value.dtype.kind == 'f':  # imshow() takes 0 to 1
		value = value.clip(0, 1) * 255
	return sys.modules['cv2'].imencode('.png', value.astype('uint16' if value.dtype == 'uint16' else 'uint8'))[1].tobytes()


def parts_of(value):
	"""Returns what a notebook would show of a value."""
	if is_page(value):
		return [('html', page_of(value))]
	if is_figure(value):
		return [('png', png_of(value))] if len(value.get_children()) > 1 else []
	data = picture_data(value)
	if data is not None:
		return [(kind_of_picture(data), data)]
	for suffix, method in methods_of(value):
		try:
			data = getattr(value, method)()
		except Exception:
			continue
		if isinstance(data, tuple) and data:  # a pair of data and metadata
			data = data[0]
		if isinstance(data, str) and suffix != 'png':
			data = data.encode('utf-8', 'replace')
		if isinstance(data, bytes) and (suffix != 'png' or data[:8] == b'\x89PNG\r\n\x1a\n'):
			return [(suffix, data)]
	return []


def place(os, name, suffix, data):
	part = '%s/.caisson-%d' % (FOLDER, os.getpid())
	fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
	try:
		at = 0
		while at < len(data):
			at += os.write(fd, data[at:])
		for number in range(1, NAMES_MAX):
			try:
				os.link(part, '%s/%s-%d.%s' % (FOLDER, name, number, suffix))
				return '%s-%d.%s' % (name, number, suffix)
			except FileExistsError:
				pass
		raise OSError
	finally:
		os.close(fd)
		os.unlink(part)
