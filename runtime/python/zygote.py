# SPDX-License-Identifier: Apache-2.0
"""The Python half of a zygote. It imports modules, freezes the heap and hands the process to the extension. In
forks it makes an interpreter that cannot be told from a fresh `python3 -c`.

Runs in the same dictionary as boot.py and places.py, whose functions it uses, as root of the image's user
namespace. Descriptor 3 is the monitor's channel, 4 the extension, 5 the system call filter. CAISSON_PRELOAD
lists the modules to import; no run sees it. With CAISSON_INSIDE the process is inside the sandbox already. The extension calls refresh(), enter() and leave() in forks:
docs/runtime-frames.md."""
import io
import itertools
import os
from _thread import get_ident

open = open  # a cell may leave another one in builtins, and the next cell is read by this one
CONTROL_FD, EXTENSION_FD, FILTER_FD = 3, 4, 5
FONTS = '/opt/caisson/mpl'


def extension(fd):
	"""Loads the extension from its descriptor and closes that. The module stays out of sys.modules."""
	import _imp
	import importlib.machinery as machinery
	path = '/proc/self/fd/%d' % fd
	spec = machinery.ModuleSpec('_caisson', None, origin=path)
	module = _imp.create_dynamic(spec)
	_imp.exec_dynamic(module)
	sys.modules.pop('_caisson', None)
	os.close(fd)
	return module


def install(c, control, program):
	global Stream, register
	Stream, register = c.stream_type(io.TextIOWrapper), c.register
	c.setup(control, program, refresh, take_over, ahead, enter, load, flush, leave, show_error, cell, result, rest,
	        lambda: finish(values), wait, needs_carrying, carry, revive, hush)


def keep_no_bytecode():
	"""A .pyc is valid while its source has the same size and second of change (PEP 552). A program that edits a module
	of its own twice within a second would get the old one, so such modules are compiled anew each time."""
	from _frozen_importlib_external import SourceFileLoader
	original = SourceFileLoader._cache_bytecode

	def cache(self, source, bytecode, data):
		if not source.startswith(('/mnt/data/', '/app/results/', '/home/user/', '/tmp/')) or '/site-packages/' in source:
			original(self, source, bytecode, data)
	SourceFileLoader._cache_bytecode = cache


def fonts():
	"""Copies the image's font list to where sandboxes have it; without it matplotlib would scan all fonts."""
	place = os.environ.get('MPLCONFIGDIR')
	if place and os.path.isdir(FONTS) and not os.path.exists(place):
		import shutil
		shutil.copytree(FONTS, place)


def preload(names):
	"""Imports the modules that the image lists. If one cannot be imported, runs import it themselves."""
	import importlib
	for name in names:
		try:
			importlib.import_module(name)
		except BaseException as e:
			sys.stderr.write('zygote: %s: %s\n' % (name, e))


def rehearse():
	"""Executes once what every run executes. In the zygote, objects that are made lazily are then made before
	the fork and shared. In a spare, pages that a run writes to are then copied before anybody waits for
	them."""
	import gc
	import site
	before = sys.stdin, sys.stdout, sys.stderr, sys.__stdin__, sys.__stdout__, sys.__stderr__
	null = os.open('/dev/null', os.O_RDWR)
	environment(b'\0'.join(k + b'=' + v for k, v in os.environb.items()))
	stream(null, 'r', 'stdin', before[0])
	stream(null, 'w', 'stdout', before[1])
	stream(null, 'w', 'stderr', before[2])
	holds('', ours_std | ours_site)
	site.USER_BASE = site.USER_SITE = None
	os.path.isdir(site.getusersitepackages())
	with open(os.dup(null), 'rb') as f:
		f.read()
	global notebook
	for notebook in True, False:
		code = load(b'import sys\ndef f(n):\n\treturn n + 1\nprint(f(1), "%s" % 1.5, [str(n) for n in range(2)])\n')
		space = {'__name__': 'caisson', '__builtins__': __builtins__}
		for part in code if notebook else (code,):
			eval(part, space)
	flush(False)
	os.close(null)
	(sys.stdin, sys.stdout, sys.stderr, sys.__stdin__, sys.__stdout__, sys.__stderr__) = before
	if hasattr(sys, 'orig_argv'):
		sys.orig_argv[1:] = '-c', ''
	gc.collect()


def forget_lines():
	import linecache
	linecache.clearcache()
	getattr(linecache, '_interactive_cache', {}).clear()


def settle():
	"""Forgets traces of the imports that a fresh interpreter does not have."""
	import warnings
	forget_lines()
	warnings._filters_mutated() if hasattr(warnings, '_filters_mutated') else None
	for module in list(sys.modules.values()):
		names = getattr(module, '__dict__', None)
		if type(names) is dict:  # sys.modules has classes, too: typing.io until Python 3.12
			names.pop('__warningregistry__', None)
	for path in list(sys.path_importer_cache):
		if not path.startswith('/usr/'):
			del sys.path_importer_cache[path]
	for name in 'last_type', 'last_value', 'last_traceback', 'last_exc':
		sys.__dict__.pop(name, None)


def make_immortal(c):
	import gc
	gc.collect()
	c.immortal(gc.get_objects(), type(freeze.__code__))


def freeze(c):
	"""Keeps reads of the shared objects, and garbage collections, from writing into them."""
	import gc
	make_immortal(c)
	c.fill()
	gc.freeze()
	gc.enable()


def memory():
	found = {}
	with open('/proc/self/smaps_rollup') as f:
		for line in f:
			part = line.split()
			if len(part) == 3:
				found[part[0]] = int(part[1]) * 1024
	return found.get('Anonymous:', 0), found.get('AnonHugePages:', 0)


def ready(started):
	import socket
	import struct
	import time
	os.dup2(0, 2)  # until now it was the file in which the monitor finds why we cannot start
	with socket.socket(fileno=os.dup(CONTROL_FD)) as s:
		s.send(struct.pack('=IiIIIIQQ', 1, 0, 3, len(sys.modules), len(os.listdir('/proc/self/task')),
		                   int((time.monotonic() - started) * 1000), *memory()))


def serve_inside(c, program):
	"""In a container: this process is the clean interpreter of the sandbox. It learns nothing about pages,
	because its forks share its memory with nobody else."""
	install(c, -1, program)
	rehearse()
	settle()
	freeze(c)
	if len(os.listdir('/proc/self/task')) != 1:
		raise SystemExit('a module has started a thread, which no fork would have')
	os.dup2(0, 2)  # until now it was the file in which init finds why we cannot start
	sys.excepthook = c.serve_inside


def start():
	"""Ends by raising an exception. The interpreter then calls the extension as sys.excepthook, on an empty
	stack."""
	import gc
	import time
	started = time.monotonic()
	gc.disable()
	os.set_inheritable(CONTROL_FD, False)
	os.environ.pop('LD_PRELOAD', None)  # programs of a run get the library by ld.so.preload
	remember(EXTENSION_FD)
	c = extension(EXTENSION_FD)
	c.gather()
	program = os.pread(FILTER_FD, 1 << 16, 0)  # pread: other zygotes share the offset
	os.close(FILTER_FD)
	if not program and not os.environ.pop('CAISSON_UNFILTERED', ''):
		raise SystemExit('no system call filter')  # no run may start without the filter
	fonts()
	preload(os.environ.pop('CAISSON_PRELOAD', '').split())
	for name in 'random', 'linecache', 'textwrap', 'weakref', 'itertools', 'site', 'threading', 'inspect', 'multiprocessing.context':
		__import__(name)
	make_immortal(c)  # constants are: the interpreter writes into code whether they are when it runs
	exercise()
	watch_workers()
	watch_spawns()
	watch_faulthandler()
	keep_no_bytecode()
	survey()
	global known
	known = dict(sys.modules)
	if os.environ.pop('CAISSON_INSIDE', ''):
		serve_inside(c, program)
		raise SystemError('zygote')
	install(c, CONTROL_FD, program)
	rehearse()
	settle()
	freeze(c)
	name_libraries(c)
	move_libraries(c)
	learn(c)
	collapse(c)
	ready(started)
	sys.excepthook = c.serve
	raise SystemError('zygote')


def hold(channel, result, display, as_notebook):
	"""For a stateful run that cannot start from a fork: an interpreter of its own, isolated already
	(start_bare). It runs the source in BARE_FD and is the session process."""
	global known
	text = b''
	if result >= 0:
		with open(BARE_FD, 'rb') as f:
			text = f.read()
		os.set_inheritable(result, False)
	os.set_inheritable(channel, False)
	c = extension(EXTENSION_COPY_FD)
	watch_workers()
	watch_spawns()
	watch_faulthandler()
	keep_no_bytecode()
	survey()
	known = dict(sys.modules)
	install(c, -1, b'')
	for fd, mode, name in STREAMS:
		stream(fd, mode, name, getattr(sys, name), True)
	c.prepare(text, channel, result)
	global notebook
	notebook = bool(as_notebook)
	show_figures(display)
	if notebook and result >= 0:
		begin_rich(result)
	sys.excepthook = c.hold
	raise SystemError('hold')


# In forks ---------------------------------------------------------------------------------------------


def ahead(session):
	"""Copies the pages that a run will write to while nobody waits: in a spare, and in the process of a SESSION after
	it has forked. Leaves no trace."""
	global cells
	if session:
		if sys.gettrace() is None and sys.getprofile() is None:
			was = cells
			try:
				exec(cell(b'None\nNone', True)[0], {'__builtins__': __builtins__})
				sys.modules['linecache'].cache.pop('<cell %d>' % cells, None)
			except Exception:
				pass  # the program changed something here; its next run will show the error
			finally:
				cells = was
		return
	rehearse()
	forget_lines()


def refresh(has_time):
	"""In a spare, ahead of need: makes sure that no random state, identity or cache is shared with other forks.
	`random` reseeds itself after a fork; the hash seed and the layout of memory stay. If HAS_TIME, the spare
	rehearses."""
	if 'threading' in sys.modules:
		sys.modules['threading'].main_thread()._set_native_id()
	sys.excepthook = sys.__excepthook__
	modules = sys.modules
	for name in 'last_type', 'last_value', 'last_traceback', 'last_exc':
		sys.__dict__.pop(name, None)
	# The interpreter's own __main__ is frozen: the collector would never free what a program puts there.
	fresh = type(sys)('__main__')
	fresh.__dict__.update(modules['__main__'].__dict__)
	global main
	modules['__main__'] = main = fresh
	if 'numpy.random' in modules:
		modules['numpy.random'].seed()
	if 'tempfile' in modules:
		modules['tempfile']._name_sequence = modules['tempfile'].tempdir = None
	if 'uuid' in modules:
		modules['uuid']._node = modules['uuid']._last_timestamp = None
	if 'multiprocessing.process' in modules:
		process = modules['multiprocessing.process']
		process.current_process().authkey = os.urandom(32)
		process._process_counter = itertools.count(1)
	if 'threading' in modules:
		modules['threading']._counter = itertools.count(1).__next__  # names of threads
	if 'logging' in modules:
		import time
		modules['logging']._startTime = time.time_ns() if sys.version_info >= (3, 13) else time.time()
	if 'matplotlib' in modules:
		for name in 'get_configdir', 'get_cachedir':
			getattr(getattr(modules['matplotlib'], name), 'cache_clear', int)()
	if has_time:
		ahead(False)


Stream = register = None  # set from the extension: the type of streams that write at every call


class Lasting(io.FileIO):
	"""A standard stream of a session. A program closes it without wanting to: quit() does, and a TextIOWrapper around
	sys.stdout.buffer does when the next one takes its place. The next cell would have no output."""

	def close(self):
		pass


class LastingReader(io.BufferedReader):
	close = Lasting.close


def stream(fd, mode, name, like, lasting=False):
	"""Makes a standard stream as `python3 -u` does. Output is in the pipe, or in the output tail, when the call
	returns."""
	raw = (Lasting if lasting else io.FileIO)(fd, mode + 'b', closefd=False)
	raw.name = '<%s>' % name
	if mode == 'r':
		binary = (LastingReader if lasting else io.BufferedReader)(raw)
		text = io.TextIOWrapper(binary, like.encoding, like.errors, '\n', binary.isatty(), True)
	else:
		binary = raw
		text = Stream(binary, like.encoding, like.errors, '\n', False, True)
		register(text, fd, name == 'stderr')
	text.mode = mode
	setattr(sys, name, text)
	setattr(sys, '__%s__' % name, text)


def environment(data):
	"""Sets exactly the environment that was sent, in that order, also for getenv(3)."""
	wanted = {}
	for item in data.split(b'\0'):
		name, equals, value = item.partition(b'=')
		if equals and name:
			wanted[name] = value
	inside = os.environ._data
	for name in [name for name in inside if name not in wanted]:
		del os.environb[name]
	for name, value in wanted.items():
		if inside.get(name) != value:
			os.environb[name] = value
	inside.clear()
	inside.update(wanted)
	if b'TZ' in wanted:
		import time
		time.tzset()


STREAMS = (0, 'r', 'stdin'), (1, 'w', 'stdout'), (2, 'w', 'stderr')


def mend_streams():
	"""Makes a stream anew that the session's code has detached, closed itself or removed: without sys.stderr nobody would
	see why a cell fails."""
	for fd, mode, name in STREAMS:
		now, first = getattr(sys, name, None), getattr(sys, '__%s__' % name, None)
		try:
			if now is not None and not now.closed:
				continue
		except Exception:  # detached
			pass
		stream(fd, mode, name, first if hasattr(first, 'encoding') else sys.stderr, True)


class Hushed:
	"""sys.stderr without what one thread writes."""

	def __init__(self, stream, thread):
		self.stream, self.thread = stream, thread

	def write(self, text):
		return len(text) if get_ident() == self.thread else self.stream.write(text)

	def __getattr__(self, name):
		return getattr(self.stream, name)


hushed = None


def hush(on):
	"""Before and after the handlers of a fork that the code did not ask for: libraries warn of forks there, and the
	client would take that for a warning of its code. Other threads go on meanwhile, and write what they like."""
	global hushed
	if on:
		shown = getattr(sys, 'stderr', None)
		if shown is not None:
			hushed = sys.stderr = Hushed(shown, get_ident())
	elif hushed is not None:
		hushed.thread = None  # somebody may have kept it
		if sys.stderr is hushed:
			sys.stderr = hushed.stream
		hushed = None


sent = b''  # the environment of the session's last statement, as it was sent
own_environment = frozenset()  # names that the session set or removed before its sandbox rested; carry.py


def change_environment(env):
	"""Applies what has changed since the last statement. What code has changed itself stays. PATH and VIRTUAL_ENV are
	join_environment()'s."""
	global sent, own_environment
	if env == sent:
		return
	old, new = (dict(line.partition(b'=')[::2] for line in e.split(b'\0') if line) for e in (sent, env))
	for name in old.keys() | new.keys():
		if old.get(name) == new.get(name) or name in (b'PATH', b'VIRTUAL_ENV') or name in own_environment:
			continue
		if name in new:
			os.environb[name] = new[name]
		else:
			os.environb.pop(name, None)
	sent, own_environment = env, frozenset()


def count_processors():
	"""os.cpu_count() as in an interpreter that was started with PYTHON_CPU_COUNT, which this fork was not."""
	text = os.environ.get('PYTHON_CPU_COUNT', '')
	n = int(text) if text.isdigit() else 0
	if n == 0 or sys.version_info < (3, 13) or os.cpu_count() == n:
		return

	def cpu_count():
		return n
	os.cpu_count = os.process_cpu_count = cpu_count


def show_figures(display):
	global displaying
	displaying = display
	if display:
		watch()


def forget_input():
	"""What an earlier run of the session read ahead is not input of this one. A move to the end and back empties
	the buffers; the stream stays the object that the session's code may hold."""
	try:
		sys.__stdin__.seek(0, 2)
		sys.__stdin__.seek(0)
	except Exception:  # closed, or no longer ours
		pass


def go_to(folder):
	try:
		os.chdir(folder)
	except OSError as error:
		os.write(2, b'The working folder %b cannot be entered, so nothing ran: %b\n' % (folder, error.strerror.encode()))
		raise


def enter(source, session, env, cwd, channel, result, display, as_notebook, as_records):
	"""The last step of a spare: sets the environment, folder and streams of its run. Returns the source and the
	namespace for it. A session keeps its own: descriptors 0 to 2 are new, the objects on them are not.
	CHANNEL is -1 unless the run is stateful; RESULT is -1 unless that or RT_NOTEBOOK."""
	global sent, notebook, errors_are_records
	notebook, errors_are_records = as_notebook, as_records
	if not session:
		environment(env)
		sent = env
		if channel >= 0:  # gRPC's own handlers of a fork start threads in the backup, which end it
			os.environ.setdefault('GRPC_ENABLE_FORK_SUPPORT', '0')
		count_processors()
		if cwd:
			go_to(cwd)
		for fd, mode, name in STREAMS:
			stream(fd, mode, name, getattr(sys, name), channel >= 0)
		if settle_places(in_environment(env)):
			start_bare(source, channel, result, display)
	else:
		mend_streams()
		forget_input()
		change_environment(env)
		if sys.prefix != VENV and in_environment(env):
			join_environment()
	show_figures(display)
	if as_notebook:
		begin_rich(result)
	with open(source, 'rb') as f:
		text = f.read()
	if channel < 0:
		keep_file(text, notebook and b'__file__' in text)
	return text, sys.modules['__main__'].__dict__


# The end ----------------------------------------------------------------------------------------------


def ignored(error, said, file):
	"""Reports ERROR as the interpreter does. The type of the hook's argument has no name, so an argument is
	caught first."""
	kinds = []

	class Broken:
		def __del__(self):
			raise ValueError

	hook, sys.unraisablehook = sys.unraisablehook, lambda argument: kinds.append(type(argument))
	Broken()
	sys.unraisablehook = hook
	new = sys.version_info >= (3, 14)
	hook(kinds[0]((type(error), error, None, said if new else None, None if new else file)))


def flush(report):
	"""Flushes the streams. Returns True if output could not be written."""
	failed = False
	for name in 'stdout', 'stderr':
		file = getattr(sys, name, None)
		if file is None or getattr(file, 'closed', False):
			continue
		try:
			file.flush()
		except BaseException as e:
			failed = True
			if report and name == 'stdout':
				ignored(e, 'Exception ignored while flushing sys.stdout', file)
	return failed


def leave():
	"""Destroys what the program made, in the interpreter's order: names of modules, garbage, then the remaining
	objects. The image's own modules stay: they go with the process."""
	import gc
	import weakref
	for name in 'stdin', 'stdout', 'stderr':
		setattr(sys, name, getattr(sys, '__%s__' % name))
	left = []
	# From the end: a look at the image's modules would write into their reference counts.
	fresh = list(itertools.islice(reversed(sys.modules), max(0, len(sys.modules) - len(known))))
	for name in ['__main__'] + [name for name in fresh[::-1] if name != '__main__']:
		try:
			left.append(weakref.ref(sys.modules.pop(name, None)))
		except TypeError:
			pass
	gc.collect()
	for ref in reversed(left):
		module = ref()
		if module is not None:
			space = module.__dict__
			for name in [n for n in space if n[:1] == '_' and n[1:2] != '_']:
				space[name] = None
			for name in [n for n in space if n != '__builtins__']:
				space[name] = None
	flush(False)
