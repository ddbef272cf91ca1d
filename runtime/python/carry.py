# SPDX-License-Identifier: Apache-2.0
"""Carries the variables of a session into a fresh interpreter, where its backup cannot go on: a fork lacks the threads
of libraries that cannot make them anew, and the first call that needs them would wait for ever.

Runs in the same dictionary as zygote.py. The backup writes what can be written into a file (carry), name by name, in
forks of itself that may hang or be killed. A spare reads it (revive) and is the session process from then on. Both are
the same Python, so code is written as the interpreter's own bytes (marshal). Functions of the session get the
__main__ of the new interpreter as their globals; classes are written as cloudpickle writes them, where it is
installed. What cannot be written or read is gone, and the client is told its name."""
import os

# Libraries that notice in a fork that their threads are gone, and make others.
HEALED = 'libarrow', 'libgomp', 'libomp', 'libopenblas', 'libscipy_openblas', 'libtbb', 'pypocketfft.', 'workqueue.', 'tokenizers.', 'interpreter.'
NEUTRAL = 'libc.', 'libc-', 'libstdc++', 'libpthread', 'libm.', 'ld-', '[', 'python3', 'libpython'
KNOWN_THREADS = 'jemalloc_bg_thd',  # by name: of an allocator, which starts another one
WAITS_S = 0.05  # for threads that execute, or wait for a processor: those of a pool come to rest soon
STACK = 1 << 14  # bytes of a thread's stack that are looked at
CARRY_S = 3.0  # for all names
STUCK_S = 1.0  # without a byte: the name is given up
GONE_MAX = 150  # bytes of the names that are told
# Of the environment: what the sandbox sets itself, and what libraries read when they are imported. None is a secret.
NEEDED = (b'PATH', b'HOME', b'USER', b'LOGNAME', b'VIRTUAL_ENV', b'LANG', b'TZ', b'MPLBACKEND', b'MPLCONFIGDIR', b'PYTHON_CPU_COUNT', b'OMP_NUM_THREADS',
	b'CAISSON_MEMORY')
STORED = b'caisson-variables/1'  # begins a file that outlives the sandbox; another number for another form
LINE_MAX = 1024


def code_ranges():
	"""Where the code of libraries is: first and last addresses, sorted, and the names of their files."""
	found = []
	with open('/proc/self/maps') as f:
		for line in f:
			part = line.split(None, 5)
			if len(part) == 6 and 'x' in part[1]:
				first, last = (int(n, 16) for n in part[0].split('-'))
				found.append((first, last, part[5].rstrip('\n').rpartition('/')[2]))
	return sorted(found)


def owner(task, ranges, memory, until):
	"""The file of the library that a thread which waits belongs to: the first that its stack returns to besides the C
	library and its like. '' if that is not known. A thread that executes is looked at again before UNTIL."""
	import bisect
	import struct
	import time
	try:
		while True:
			with open('/proc/self/task/%s/syscall' % task) as f:  # proc(5): ... stack pointer, program counter
				part = f.read().split()
			if part != ['running'] or time.monotonic() >= until:
				break
			time.sleep(0.001)
		data = os.pread(memory, STACK, int(part[-2], 16))
	except (OSError, IndexError, ValueError):  # it has ended, or executes
		return ''
	for (word,) in struct.iter_unpack('=Q', data[:len(data) // 8 * 8]):
		at = bisect.bisect(ranges, (word, 1 << 64, '')) - 1
		if at >= 0 and ranges[at][0] <= word < ranges[at][1] and not ranges[at][2].startswith(NEUTRAL):
			return ranges[at][2]
	return ''


owners = {}  # by thread id: of those that were looked at


def needs_carrying():
	"""In a session process that rests, after a fork: whether a fork of it lacks threads that it would need."""
	threading = sys.modules.get('threading')
	ours = {thread.native_id for thread in list(threading._active.values())} if threading else set()
	ours.add(os.getpid())
	ranges = until = None
	memory, carries = -1, False
	for task in os.listdir('/proc/self/task'):
		if int(task) in ours:
			continue
		try:
			with open('/proc/self/task/%s/comm' % task) as f:
				name = f.read().rstrip('\n')
		except OSError:
			continue  # it has ended
		if name in KNOWN_THREADS:
			continue
		if not owners.get(task):
			if memory < 0:
				import time
				ranges, memory, until = code_ranges(), os.open('/proc/self/mem', os.O_RDONLY | os.O_CLOEXEC), time.monotonic() + WAITS_S
			owners[task] = owner(task, ranges, memory, until)
		if not owners[task].startswith(HEALED):
			carries = True
			break
	if memory >= 0:
		os.close(memory)
	return carries


# In the backup ----------------------------------------------------------------------------------------


def make_carrier(space):
	"""The class of what writes the variables of SPACE."""
	import functools
	import importlib
	import marshal
	import pickle
	import types
	base = pickle.Pickler
	try:
		try:
			import cloudpickle
		except ImportError:
			from joblib.externals import cloudpickle
		base = cloudpickle.Pickler
	except Exception:
		pass  # classes of the session are gone then

	def attributes(function):
		names = '__qualname__', '__doc__', '__defaults__', '__kwdefaults__', '__module__', '__type_params__'
		found = {name: getattr(function, name) for name in names if hasattr(function, name)}
		lazy = '__annotate__' if hasattr(function, '__annotate__') else '__annotations__'  # 3.14: a function that makes them
		found[lazy] = getattr(function, lazy)
		return function.__dict__ or None, found

	class Globals:
		pass

	marker = Globals()  # stands for the globals of the session
	dispatcher = functools.singledispatch(len).__code__  # of every function that it makes
	# In the body of a class, where annotations of its methods are looked up. From Python 3.15 on these two say that they
	# belong to `object`, which has none.
	made_by_type = '__dict__', '__weakref__'

	def register_all(function, registered):  # the reader calls it
		for kind, implementation in registered:
			function.register(kind, implementation)
		return function.registry

	class Registry:  # stands for what is registered with a function, which has to be there before that
		def __init__(self, function):
			self.function = function

	def wrapper_attributes(wrapper):
		found = {name: getattr(wrapper, name) for name in functools.WRAPPER_ASSIGNMENTS if hasattr(wrapper, name)}
		found.pop('__annotations__', None)
		found.pop('__annotate__', None)
		return found

	class Carrier(base):
		def reducer_override(self, thing):
			kind = type(thing)
			if thing is marker:
				return vars, (sys.modules['__main__'],)
			if kind is types.FunctionType and thing.__code__ is dispatcher and thing.__module__ in ('__main__', 'functools'):
				own = {name: value for name, value in thing.__dict__.items() if name not in ('register', 'dispatch', 'registry', '_clear_cache')}
				return functools.singledispatch, (thing.__wrapped__,), (own, {**wrapper_attributes(thing), 'registry': Registry(thing)})
			if kind is Registry:
				return register_all, (thing.function, list(thing.function.registry.items()))
			if thing is register_all:
				return types.FunctionType, (thing.__code__, {}, thing.__name__)
			if kind is functools.singledispatchmethod:
				return kind, (thing.func,), {'dispatcher': thing.dispatcher}
			if kind is types.FunctionType and thing.__globals__ is space:
				return types.FunctionType, (thing.__code__, marker, thing.__name__, None, thing.__closure__), attributes(thing)
			if kind is types.CodeType:
				return marshal.loads, (marshal.dumps(thing),)
			if kind is types.CellType:
				try:
					value = thing.cell_contents
				except ValueError:  # empty
					return types.CellType, ()
				if type(value) is dict and types.GetSetDescriptorType in (type(value.get(name)) for name in made_by_type):
					value = {name: one for name, one in value.items() if name not in made_by_type}
				return types.CellType, (), (None, {'cell_contents': value})
			if thing is types.FunctionType or thing is types.CellType:
				return getattr, (types, 'FunctionType' if thing is types.FunctionType else 'CellType')
			if thing is functools._CacheInfo:  # its module has it by another name
				return getattr, (functools, '_CacheInfo')
			if kind is types.ModuleType:
				return importlib.import_module, (thing.__name__,)
			if kind is functools._lru_cache_wrapper and getattr(thing.__wrapped__, '__globals__', None) is space:
				maker = functools._lru_cache_wrapper
				options = thing.cache_parameters()
				kept = wrapper_attributes(thing)
				kept['__wrapped__'] = thing.__wrapped__
				kept['cache_parameters'] = functools.partial(dict, options)  # for the next time
				return maker, (thing.__wrapped__, options['maxsize'], options['typed'], functools._CacheInfo), kept
			named = kind.__module__, kind.__name__
			# their own way to join chunks waits for threads
			if named == ('polars.series.series', 'Series') and thing.n_chunks() > 1:
				return thing.rechunk().__reduce_ex__(5)
			if named == ('polars.dataframe.frame', 'DataFrame') and thing.n_chunks() > 1:
				return kind, ([column.rechunk() for column in thing.get_columns()],)
			if isinstance(thing, io.IOBase) and type(thing).__module__ in ('_io', 'io'):
				raise pickle.PicklingError('an open file')
			# it would be written with the number of its descriptor, and close that in the new interpreter
			if any(base.__name__ == '_ConnectionBase' and base.__module__.endswith('.connection') for base in kind.__mro__):
				raise pickle.PicklingError('a connection')
			above = getattr(super(), 'reducer_override', None)
			return above(thing) if above else NotImplemented
	return Carrier


class Nowhere:
	@staticmethod
	def write(data):
		return memoryview(data).nbytes


def is_plain(value):
	"""Whether VALUE can be written for sure."""
	kind = type(value)
	if kind in (int, float, complex, str, bytes, bool, type(None), range):
		return True
	return kind.__name__ == 'ndarray' and kind.__module__ == 'numpy' and not value.dtype.hasobject


# What each __main__ has by itself. A name that is like these, such as __version__, is the program's.
OF_MODULES = frozenset(('__name__', '__doc__', '__package__', '__loader__', '__spec__', '__file__', '__cached__', '__builtins__', '__annotations__', '__annotate__',
	'__conditional_annotations__', '__debug__', '__warningregistry__'))


def session_names(space):
	return [name for name in space if name not in OF_MODULES and name not in SELF_MADE]


def changed_options(pandas):
	from pandas._config import config
	values = {key: config.get_option(key) for key in config._registered_options if key not in config._deprecated_options}
	return {key: value for key, value in values.items() if value != config._registered_options[key].defval}


def set_filters(warnings, filters):
	warnings.filters[:] = filters
	if hasattr(warnings, '_filters_mutated'):
		warnings._filters_mutated()
	else:  # 3.14
		with warnings._lock:
			warnings._filters_mutated_lock_held()


def handlers(signal):
	"""Not that of SIGINT: between cells that signal is ignored."""
	found = {number: signal.getsignal(number) for number in signal.valid_signals() if number != signal.SIGINT}
	return {number: handler for number, handler in found.items() if callable(handler)}


def umask(os):
	mask = os.umask(0o077)
	os.umask(mask)
	return mask


SETTINGS = (  # module, what gets its settings, and what sets them: cells make them once, and later ones count on them
	('warnings', lambda m: m.filters[:], set_filters),
	('decimal', lambda m: m.getcontext(), lambda m, context: m.setcontext(context)),
	('locale', lambda m: m.setlocale(m.LC_ALL), lambda m, names: m.setlocale(m.LC_ALL, names)),
	('signal', handlers, lambda m, found: [m.signal(number, handler) for number, handler in found.items()]),
	('os', umask, lambda m, mask: m.umask(mask)),
	('gc', lambda m: (m.isenabled(), m.get_threshold()), lambda m, v: ((m.enable if v[0] else m.disable)(), m.set_threshold(*v[1]))),
	('numpy', lambda m: m.get_printoptions(), lambda m, options: m.set_printoptions(**options)),
	('pandas', changed_options, lambda m, options: [m.set_option(key, value) for key, value in options.items()]),
	('matplotlib', lambda m: {key: value for key, value in dict.items(m.rcParams) if not key.startswith('backend')}, lambda m, values: dict.update(m.rcParams, values)),
)


def settings(can_write):
	found = {}
	for name, get, _ in SETTINGS:
		try:
			if name in sys.modules:
				value = get(sys.modules[name])
				if can_write(value):
					found[name] = value
		except Exception:
			pass  # another version of the library, or the program changed something here
	return found


def take_settings(found):
	import importlib
	for name, _, set_them in SETTINGS:
		try:
			if name in found:
				set_them(importlib.import_module(name), found[name])
		except Exception:
			pass


def folder():
	"""The working folder, or '' if it has been removed."""
	try:
		return os.getcwd()
	except OSError:
		return ''


def stored_line(names):
	"""The first line of a file that outlives the sandbox. Another version of Python must not read what follows: it has
	code as bytes of this one."""
	from importlib.util import MAGIC_NUMBER
	count, text = told(0, names)[1:]
	return b'%s %s %d %s\n' % (STORED, MAGIC_NUMBER.hex().encode(), count, text.replace(b'\n', b' '))


def other_python(file):
	"""Goes to where the variables begin. Returns what told() returns if another version of Python has written them, else
	None, and whether the file has outlived its sandbox."""
	from importlib.util import MAGIC_NUMBER
	file.seek(0)
	line = file.readline(LINE_MAX)
	if not line.startswith(STORED):
		file.seek(0)
		return None, False
	magic, count, text = line[len(STORED) + 1:-1].split(b' ', 2)
	return None if magic == MAGIC_NUMBER.hex().encode() else (0, int(count), text[:GONE_MAX]), True


def without_given(stored):
	"""The environment, what was sent of it, and the names that are the code's own: it has set or removed them. In a file
	that outlives the sandbox there is nothing that was only given to the session: the next cell gets it anew, and it may
	be secret."""
	inside = dict(os.environ._data)
	if not stored:
		return inside, sent, list(own_environment)
	given = dict(line.partition(b'=')[::2] for line in sent.split(b'\0') if line)
	stays = {name: value for name, value in given.items() if name in NEEDED}
	own = own_environment.union(name for name, value in given.items() if name not in NEEDED and inside.get(name) != value)
	return ({name: value for name, value in inside.items() if name in NEEDED or given.get(name) != value},
		b''.join(b'%s=%s\0' % pair for pair in stays.items()), list(own))


def write_names(fd, report, skip, stored):
	"""In a fork of the backup: writes all to FD. Tells the pipe REPORT what it begins, and what has failed."""
	space = sys.modules['__main__'].__dict__
	Carrier = make_carrier(space)
	file = open(fd, 'wb', buffering=1 << 20, closefd=False)
	file.seek(0)
	file.truncate()

	def tell(kind, name):
		os.write(report, b'%s%s\0' % (kind, name.encode('utf-8', 'replace')))

	def can_write(value):
		try:
			Carrier(Nowhere, 5).dump(value)
			return True
		except BaseException:
			return False

	names = [name for name in session_names(space) if name not in skip]
	good, bad = [], list(skip)
	for name in names:
		tell(b'?', name)
		if is_plain(space[name]) or can_write(space[name]):
			good.append(name)
		else:
			tell(b'-', name)
			bad.append(name)
	if stored:
		file.write(stored_line(good + bad))
	import linecache
	outputs = space.get('Out')
	outputs = [pair for pair in outputs.items() if type(pair[0]) is int] if has_history and type(outputs) is dict else []
	inside, given, own = without_given(stored)
	carrier = Carrier(file, 5)  # one for all, so that names of one object still are names of one object
	carrier.dump({
		'names': good, 'gone': bad, 'environ': inside, 'sent': given, 'own': own, 'cwd': folder(), 'path': list(map(str, sys.path)), 'argv': list(map(str, sys.argv)),
		'cells': cells, 'future': future, 'definitions': definitions, 'random_state': random_state, 'history': has_history,
		'recursion': sys.getrecursionlimit(), 'inputs': [str(text) for text in space.get('In', ())] if has_history else [],
		'outputs': len(outputs),
		'numpy': sys.modules['numpy.random'].get_state() if 'numpy.random' in sys.modules else None,
		'lines': {name: entry for name, entry in linecache.cache.items() if name[:6] == '<cell '},
	})
	for name in good:
		tell(b'=', name)
		carrier.dump(space[name])
		file.flush()
		tell(b'+', name)
	tell(b'?', '')  # if the writer ends at the settings, no name is to blame
	carrier.dump(settings(can_write))
	# The last ones, and whatever fails ends the file: a value that was only displayed costs no name.
	for pair in [None] + outputs:
		if pair:
			carrier.dump(pair if is_plain(pair[1]) or can_write(pair[1]) else ())
		file.flush()
		tell(b'*', '')
	file.close()


def watch_writer(pid, report, fd, deadline):
	"""Waits for a writer. Returns what it said last, the names that it gave up, how many bytes are whole, and whether it
	has written all."""
	import select
	import time
	said, failed, whole, written, text = '', [], 0, 0, b''
	moved, size = time.monotonic(), -1
	while True:
		now = time.monotonic()
		if os.fstat(fd).st_size != size:
			moved, size = now, os.fstat(fd).st_size
		if now >= deadline or now - moved >= STUCK_S:
			break
		if not select.select([report], [], [], 0.05)[0]:
			continue
		data = os.read(report, 1 << 16)
		if not data:
			break
		moved = now
		*lines, text = (text + data).split(b'\0')
		for line in lines:
			name = line[1:].decode('utf-8', 'replace')
			if line[:1] in b'?=':
				said = name
			elif line[:1] == b'-':
				failed.append(name)
			else:
				written, whole = written + (line[:1] == b'+'), os.fstat(fd).st_size
	try:
		os.kill(pid, 9)
	except OSError:
		pass
	status = os.waitpid(pid, 0)[1]
	return said, failed, whole, written, status == 0


def write_all(fd, stored):
	"""Writes what the session has to FD, which outlives the sandbox if it is to be STORED. Returns how many names that
	are, and which are gone."""
	import time
	deadline = time.monotonic() + CARRY_S
	skip = []
	while True:
		report, end = os.pipe()
		hush(True)
		try:
			pid = os.fork()
		finally:
			hush(False)
		if pid == 0:
			status = 1
			try:
				with open('/proc/self/oom_score_adj', 'w') as f:  # for want of memory it is this process that ends
					f.write('1000')
			except OSError:
				pass
			try:
				write_names(fd, end, skip, stored)
				status = 0
			finally:
				os._exit(status)
		os.close(end)
		said, failed, whole, written, all_written = watch_writer(pid, report, fd, deadline)
		os.close(report)
		if all_written:
			return written, skip + failed
		if not said or time.monotonic() >= deadline:
			break
		skip.append(said)  # it hung or crashed at this one: all the others, without it
	if not whole:
		raise OSError('nothing could be written')
	os.ftruncate(fd, whole)
	names = session_names(sys.modules['__main__'].__dict__)
	good = [name for name in names if name not in skip and name not in failed]
	return written, skip + failed + good[written:]


def told(kept, gone):
	"""What init is told: how many names there are, how many are gone, and the first of those."""
	text = b''
	for name in gone:
		more = (b', ' if text else b'') + name.encode('utf-8', 'replace')
		if len(text) + len(more) > GONE_MAX:
			break
		text += more
	return kept, len(gone), text


def carry(fd, stored):
	"""In a backup that cannot go on as it is, or whose sandbox comes to rest (STORED). Returns what told() returns."""
	return told(*write_all(fd, stored))


# In the spare -----------------------------------------------------------------------------------------


def careful_reader(file):
	"""Reads on after a part that could not be read. What that part has memoized may be half made, so whatever refers to
	it cannot be read either. The interpreter's own reader cannot do that, and this one is slower."""
	import pickle
	import pickletools

	class Reader(pickle._Unpickler):
		dispatch = dict(pickle._Unpickler.dispatch)
		count = 0

		def memoize(self):
			self.memo[self.count] = self.stack[-1]
			self.count += 1
		dispatch[pickle.MEMOIZE[0]] = memoize

		def load(self):
			start, first = file.tell(), self.count
			memoized = sum(op.name == 'MEMOIZE' for op, _, _ in pickletools.genops(file))
			end = file.tell()
			file.seek(start)
			try:
				return super().load()
			except Exception:
				for n in range(first, first + memoized):
					self.memo.pop(n, None)
				file.seek(end)
				raise
			finally:
				self.count = first + memoized
	return Reader(file)


def read_values(file, start):
	"""Returns what write_names() wrote first, at START, the values that can be read, the names of those that cannot,
	settings, and displayed values."""
	import pickle
	for reader in pickle.Unpickler(file), careful_reader(file):
		file.seek(start)
		first, found, failed, rest = reader.load(), {}, [], []
		for name in first['names'] + [None] * (1 + first['outputs']):
			try:
				value = reader.load()
			except EOFError:  # the file was cut here
				break
			except Exception:
				failed.append(name)
				if type(reader) is pickle.Unpickler:
					break
				continue
			if name is None:
				rest.append(value)
			else:
				found[name] = value
		if not failed:
			break
	made = next((value for value in rest if type(value) is dict), {})
	shown = dict(value for value in rest if type(value) is tuple and value)
	return first, found, [name for name in failed if name is not None], made, shown


def take_names(space, first, found, shown):
	"""Gives the names to the session, and the history of its cells."""
	global has_history
	space.update(found)
	has_history = first['history']
	if has_history:
		space['In'], space['Out'] = first['inputs'], shown


def revive(fd, channel):
	"""In a spare: makes it the session process that FD describes. Returns what told() returns. If the session needs a
	bare interpreter, and CHANNEL is not -1, the process becomes one, which calls this again."""
	global sent, own_environment, cells, future, random_state
	import linecache
	with open(fd, 'rb') as file:
		for number, mode, name in STREAMS:
			stream(number, mode, name, getattr(sys, name), True)
		import pickle
		other, stored = other_python(file)  # the writer shares the position
		if other:  # the next cell begins a session of its own, which is told
			raise RuntimeError('another version of Python has written the variables')
		start = file.tell()
		first = pickle.Unpickler(file).load()  # its modules are found in the places of the session
		environment(b'\0'.join(name + b'=' + value for name, value in first['environ'].items()))
		for path in first['cwd'], '/mnt/data':
			try:
				os.chdir(path)
				break
			except OSError:  # the cells have removed it
				pass
		sent, own_environment = first['sent'], frozenset(first['own'])
		count_processors()
		if channel >= 0 and settle_places(in_environment(sent)):
			start_bare(fd, channel, -1, False)
		sys.path[:] = first['path']
		sys.argv[:] = first['argv']
		sys.setrecursionlimit(first['recursion'])
		linecache.cache.update(first['lines'])
		cells, future, random_state = first['cells'], first['future'], first['random_state']
		definitions[:] = first['definitions']
		keep_file((''.join(definitions) + TAKE_VARIABLES).encode('utf-8', 'replace'))
		show_figures(False)
		first, found, failed, made, shown = read_values(file, start)
	take_names(sys.modules['__main__'].__dict__, first, found, shown)
	take_settings(made)
	if random_state is not None:
		sys.modules['random'].setstate(random_state)
	if first['numpy'] is not None:
		import numpy
		numpy.random.set_state(first['numpy'])
	if stored:  # nobody has been told yet what could not be written
		failed = first['gone'] + [name for name in first['names'] if name not in found]
	return told(len(found), failed)
