# SPDX-License-Identifier: Apache-2.0
"""Statements of a session: their code, the value of their last expression, and what they leave for worker
processes.

Runs in the same dictionary as boot.py and zygote.py, in the process that holds the session's state."""
import builtins
import os
from sys import _current_frames as threads_of_python
from time import monotonic

builtins_space = builtins.__dict__
LEFT_THREADS, LEFT_SERVICES = 1, 2  # enum rt_left
SELF_MADE = frozenset(('In', 'Out', '_', '__', '___', '_i', '_ii', '_iii', VALUE))  # names that a session has by itself

cells = 0  # how many there were
FUTURE = 0x1fe0000  # flags of code objects for `from __future__ import ...`; the same from 3.9 to 3.15
future = 0
random_state = None
last_module = None  # the newest one when the cell began


definitions = []  # source of imports and definitions in cells, for workers that import the main program
DEFINITIONS_MAX = 1 << 20  # characters in all


def is_definition(node):
	import ast
	kinds = ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef
	return isinstance(node, kinds) or isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) \
		and all(isinstance(target, ast.Name) for target in node.targets)


def keep_definitions(tree, lines, text):
	"""Writes only the statements that define something to CODE_FILE, so a worker that imports it does not run
	every cell again."""
	import ast
	before = len(definitions)
	asked = notebook and '__file__' in text
	for node in tree.body:
		if not is_definition(node):
			continue
		first = min([node.lineno] + [d.lineno for d in getattr(node, 'decorator_list', ())])
		if hasattr(node, 'body'):
			text = ''.join(lines[first - 1:node.end_lineno])
		else:  # other statements may be on the same line
			text = ast.get_source_segment(''.join(lines), node) or ''
		if not text.endswith('\n'):
			text += '\n'
		definitions.insert(0, text) if getattr(node, 'module', None) == '__future__' else definitions.append(text)
	while sum(map(len, definitions)) > DEFINITIONS_MAX:
		del definitions[len(definitions) // 2]
	asked = asked or notebook and any('__file__' in one for one in definitions)
	if asked or len(definitions) != before or '__file__' not in sys.modules['__main__'].__dict__:
		keep_file((''.join(definitions) + TAKE_VARIABLES).encode('utf-8', 'replace'), asked)


VARIABLES_FILE = CODE_FOLDER + '/variables'
VARIABLES_MAX = 64 << 20  # bytes of one variable
VARIABLES_S = 0.02  # what takes longer is done once in a cell
TAKE_VARIABLES = '''
def __take(path):
    import io, pickle
    class Reader(pickle.Unpickler):
        def find_class(self, module, name):
            return globals()[name] if module == '__main__' and name in globals() else super().find_class(module, name)
    try:
        with open(path, 'rb') as file:
            for name, data in pickle.load(file).items():
                try: globals()[name] = Reader(io.BytesIO(data)).load()
                except Exception: pass
    except OSError: pass
__take(%r); del __take
''' % VARIABLES_FILE
variables_kept = 0, 0.0  # the cell that wrote them last, and how long that took


def keep_variables():
	"""A worker that starts anew imports the definitions. What these use and pickle can write, it gets with the values of
	this moment."""
	global variables_kept
	if not cells or variables_kept[0] == cells and variables_kept[1] > VARIABLES_S:
		return
	import pickle
	import re
	import time
	began = time.monotonic()
	space, found = sys.modules['__main__'].__dict__, {}
	for name in set(re.findall(r'[^\W\d]\w*', ''.join(definitions))).intersection(space):
		if isinstance(space[name], (type, type(keep_variables), type(sys))) or name in SELF_MADE:
			continue
		try:
			data = pickle.dumps(space[name])
		except Exception:
			continue
		if len(data) <= VARIABLES_MAX:
			found[name] = data
	fd = os.open(VARIABLES_FILE + '.new', os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
	with open(fd, 'wb') as file:
		pickle.dump(found, file)
	os.rename(VARIABLES_FILE + '.new', VARIABLES_FILE)
	variables_kept = cells, time.monotonic() - began


def watch_spawns():
	from multiprocessing import context
	for kind in context.SpawnProcess, context.ForkServerProcess:
		def popen(process, original=kind._Popen):
			try:
				keep_variables()
			except Exception:
				pass  # no room in /tmp: then it has the definitions alone
			return original(process)
		kind._Popen = staticmethod(popen)


def find_cell(original):
	"""Makes inspect.getfile() find a class of the session in the cell that defined it last."""
	def getfile(object):
		if isinstance(object, type) and object.__module__ == '__main__':
			import linecache
			for number in range(cells, 0, -1):
				name = '<cell %d>' % number
				for line in linecache.cache.get(name, (0, None, ()))[2]:
					words = line.replace('(', ' ').replace(':', ' ').split()
					if words[:2] == ['class', object.__name__]:
						return name
		return original(object)
	getfile.ours = True
	return getfile


def remember_input(text):
	"""The names that a notebook gives to what was typed; result() has those of values."""
	global has_history
	has_history = True
	space = sys.modules['__main__'].__dict__
	inputs = space.setdefault('In', [])
	if type(inputs) is not list:
		return  # the program's own
	space.setdefault('Out', {})
	inputs.extend([''] * (cells - len(inputs)))
	inputs.append(text)
	space['_i'], space['_ii'], space['_iii'] = (inputs[-2:-5:-1] + [''] * 3)[:3]
	if 'get_event_loop' in text:
		session_loop()


def cell(text, rehearsal=False):
	"""Returns the code of the statements and, if the last one is an expression, the code of that expression.
	Registers the lines with linecache under a name of their own, because functions live longer than the cell
	that made them."""
	import linecache
	global cells, future, last_module, n_builtins
	n_builtins = builtins_space.__len__()
	cells += 1
	last_module = next(reversed(sys.modules), None)
	name = '<cell %d>' % cells
	text = text.decode('utf-8', 'replace')
	lines = [line + '\n' for line in text.splitlines()]
	linecache.cache[name] = len(text), None, lines, name
	if notebook and not rehearsal:
		remember_input(text)
		if globals().get('marks'):  # of autoreload.py
			reload_changed()
	tree, plain, read = parse(text, name, future)
	if read is not text:
		lines = [line + '\n' for line in read.splitlines()]
		linecache.cache[name] = len(read), None, lines, name
		text = read
	if not rehearsal:
		keep_definitions(tree, lines if plain is text else [line + '\n' for line in plain.split('\n')], text)
	inspect = sys.modules.get('inspect')
	if inspect and not hasattr(inspect.getfile, 'ours'):
		inspect.getfile = find_cell(inspect.getfile)
	codes = codes_of(tree, text, name, future)
	future |= codes[0].co_flags & FUTURE  # it also holds for later cells
	if watchdog and not rehearsal:
		resume_watchdog()
	return codes


watchdog = None  # of faulthandler.dump_traceback_later(): when it has ended, unless it repeats, and its arguments
start_watchdog = stop_watchdog = None  # of faulthandler


def watch_faulthandler():
	"""The thread of dump_traceback_later() is no thread of Python, and in a fork it is gone: the call that ends it would
	wait for it for ever. So it ends with each cell, and the next one starts it again."""
	global start_watchdog, stop_watchdog
	import faulthandler
	import functools
	start_watchdog, stop_watchdog = faulthandler.dump_traceback_later, faulthandler.cancel_dump_traceback_later

	@functools.wraps(start_watchdog)
	def dump_traceback_later(timeout, *args, **kwargs):
		global watchdog
		start_watchdog(timeout, *args, **kwargs)
		repeats = args[0] if args else kwargs.get('repeat')
		watchdog = None if repeats else monotonic() + timeout, timeout, args, kwargs

	@functools.wraps(stop_watchdog)
	def cancel_dump_traceback_later():
		global watchdog
		watchdog = None
		stop_watchdog()
	faulthandler.dump_traceback_later, faulthandler.cancel_dump_traceback_later = dump_traceback_later, cancel_dump_traceback_later


def pause_watchdog():
	global watchdog
	stop_watchdog()
	if watchdog[0] is not None and monotonic() >= watchdog[0]:
		watchdog = None


def resume_watchdog():
	global watchdog
	due, timeout, args, kwargs = watchdog
	try:
		start_watchdog(timeout, *args, **kwargs)
		watchdog = due and monotonic() + timeout, timeout, args, kwargs
	except (OSError, ValueError, AttributeError, RuntimeError):  # its file is closed, or sys.stderr is not a file now
		watchdog = None


def forget_orphans():
	"""A package whose import was interrupted is gone, but not the modules that it had imported from itself. The next
	import would find these and, since they are no news, not set their names in the package: NameError. They are
	executed again with it. Those in C stay, because many can be made only once."""
	modules, new = sys.modules, []
	for name in reversed(tuple(modules)):
		if name == last_module:
			break
		new.append(name)
	for name in sorted(n for n in new if type(n) is str):  # a package before what is in it
		parent = name.rpartition('.')[0]
		if parent and parent not in modules and str(getattr(modules.get(name), '__file__', '')).endswith('.py'):
			modules.pop(name, None)


def rest(good):
	"""A cell has ended; GOOD says that its code returned. Returns its number, what it leaves to the next one (enum
	rt_left), how many sockets of that are no connections that a crash takes, and what trackers() returns."""
	global random_state, shows_after_error
	mend_interpreter()
	if watchdog:
		pause_watchdog()
	if displaying and (good or shows_after_error):
		finish(values if good else (), True)
	shows_after_error = False
	values.clear()
	forget_file()
	if globals().get('marks'):
		mark_modules()
	if not good:
		forget_orphans()
	modules = sys.modules
	random_state = modules['random'].getstate() if 'random' in modules else None
	return (cells,) + threads_left() + trackers()


TRACKERS = 'multiprocessing.resource_tracker', 'loky.backend.resource_tracker', 'joblib.externals.loky.backend.resource_tracker'


def trackers():
	"""The descriptors of up to two resource trackers: their end tells a tracker that this process has ended."""
	found = [getattr(getattr(sys.modules.get(name), '_resource_tracker', None), '_fd', None) for name in TRACKERS]
	return tuple(([fd for fd in found if type(fd) is int] + [0, 0])[:2])


def threads_left():
	"""Keeps the threads for renew_threads(). Only what it does not start again is worth a word after a crash. Returns a part
	of rt_left, and how many servers there are with a socket that it makes anew."""
	left_threads.clear()
	n = len(threads_of_python()) - 1
	if n < 1:
		return 0, 0
	import threading
	left_threads.extend(thread for thread in list(threading._active.values()) if thread is not threading.main_thread())
	again = [thread for thread in left_threads if begins_again(thread)]
	return LEFT_THREADS | (LEFT_SERVICES if n == len(again) else 0), sum(server_of(thread) is not None for thread in again)
