# SPDX-License-Identifier: Apache-2.0
"""Makes a Python run look like `python3 -c SOURCE`; runtime/embed.py wraps it for the command line.

A cold run is `python3 -c <this text>` with the submitted source as descriptor 3 and nothing else
above 2. __main__ is the interpreter's own and untouched, argv is ['-c'], sys.path[0] is '', the
file name is "<string>". Beyond -c, tracebacks show source lines on every version and the source
may be of any length. The warm path uses load() too. Rules: docs/runtime-frames.md.

Before 3.13 importing linecache would cost as much as the rest of the start, so there the lines are
registered when they are needed for the traceback that ends the run.

The names here live in a dictionary of their own, so nothing that submitted code does to its
globals reaches them; what submitted code can reach by digging is its own interpreter only.
"""
import sys

SOURCE_FD = 3
NAME = '<string>'
CODE_FOLDER = '/tmp/.caisson'
CODE_FILE = CODE_FOLDER + '/main.py'  # what __file__ says: the submitted code, for workers and for inspect
source = ''
watch = finish = None  # display.py, where it is wanted


def load(text):
	"""Code object of the source bytes TEXT, known to linecache as the interpreter would do it."""
	raw = text
	try:
		text = text.decode()
	except UnicodeDecodeError:
		return compile(raw, NAME, 'exec', dont_inherit=True)  # the error of a file, or its cookie
	version = sys.version_info[:2]
	if version >= (3, 14) and text.lstrip('\r\n')[:1] in (' ', '\t'):
		import textwrap
		text = textwrap.dedent(text)  # since 3.14 -c does so
	if version >= (3, 10):
		sys.orig_argv[1:] = '-c', text
	# The text comes first: a SyntaxError shows its line from the exception itself.
	code = compile(text if version >= (3, 10) else raw, NAME, 'exec', dont_inherit=True)  # 3.9 heeds a cookie
	if version >= (3, 13):  # as the interpreter does; before, it registers nothing: see show()
		import linecache
		if version >= (3, 14):
			linecache._register_code(code, text, NAME)
		else:
			linecache._register_code(NAME, text, NAME)
	else:
		global source
		source = text
	return code


def keep_file(text):
	"""Writes TEXT to CODE_FILE, which becomes __main__.__file__: spawned workers import it, inspect and programs
	read it. Without room in /tmp there is no such file and no __file__."""
	space = sys.modules['__main__'].__dict__
	try:
		import posix
		flags = posix.O_WRONLY | posix.O_CREAT | posix.O_TRUNC | posix.O_NOFOLLOW | posix.O_CLOEXEC
		try:
			fd = posix.open(CODE_FILE, flags, 0o600)
		except FileNotFoundError:
			posix.mkdir(CODE_FOLDER, 0o700)
			fd = posix.open(CODE_FILE, flags, 0o600)
		try:
			done = posix.write(fd, text) == len(text)
		finally:
			posix.close(fd)
	except OSError:
		done = False
	if done:
		space['__file__'] = CODE_FILE
	elif space.get('__file__') == CODE_FILE:
		del space['__file__']


def prefer_fork(context):
	"""Workers are forks unless the program says otherwise: they have what the code defined, guarded by
	`if __name__ == '__main__'` or not, and start in a millisecond. Since 3.14 the interpreter's own choice is
	forkserver, whose workers import the main program anew."""
	context._default_context._default_context = context._concrete_contexts['fork']


class ForkFinder:
	"""First of sys.meta_path until multiprocessing is imported."""

	@staticmethod
	def find_spec(name, path=None, target=None):
		if name != 'multiprocessing.context':
			return None
		if ForkFinder in sys.meta_path:
			sys.meta_path.remove(ForkFinder)
		from importlib.machinery import PathFinder
		spec = PathFinder.find_spec(name, path)
		if spec is None or not hasattr(spec.loader, 'exec_module'):
			return spec
		loader = spec.loader
		run = loader.exec_module

		def exec_module(module):
			del loader.exec_module
			run(module)
			try:
				prefer_fork(module)
			except Exception:
				pass
		loader.exec_module = exec_module
		return spec


def watch_workers():
	context = sys.modules.get('multiprocessing.context')
	if context is None:
		sys.meta_path.insert(0, ForkFinder)
	else:
		prefer_fork(context)


class Guard:
	"""Takes the loader's own frame out of the traceback of what escapes from submitted code.

	A with statement re-raises without adding an entry, and finds __exit__ on its stack, not by a
	name that submitted code might have changed."""

	def __enter__(self):
		pass

	def __exit__(self, kind, value, tb, ours=globals(), version=sys.version_info[:2],
	             isinstance=isinstance, KeyboardInterrupt=KeyboardInterrupt, SystemExit=SystemExit,
	             Exception=Exception):
		if value is None or isinstance(value, SystemExit):
			if finish and (value is None or value.code in (None, 0)):
				finish()
			return
		tb = tb.tb_next
		while tb is not None and tb.tb_frame.f_globals is ours:
			tb = tb.tb_next
		value.__traceback__ = tb
		if version >= (3, 13) or version >= (3, 11) and isinstance(value, KeyboardInterrupt):
			return  # the interpreter prints it
		try:
			shown = show(kind, value, tb)
		except Exception:
			shown = False
		if version < (3, 11):  # the interpreter would add the loader's frame again
			if not shown:
				call_hook(kind, value, tb)
			if isinstance(value, KeyboardInterrupt):
				be_silent()  # and let it end the process, by SIGINT
				return
			raise SystemExit(1)
		if shown:
			raise SystemExit(1)


def call_hook(*what):
	"""sys.excepthook as the interpreter calls it."""
	try:
		sys.excepthook(*what)
	except SystemExit:
		raise
	except BaseException as e:
		e.__context__ = None
		e.__traceback__ = e.__traceback__.tb_next
		sys.stderr.write('Error in sys.excepthook:\n')
		sys.__excepthook__(type(e), e, e.__traceback__)
		sys.stderr.write('\nOriginal exception was:\n')
		sys.__excepthook__(*what)


def be_silent():
	"""The next exception that nobody catches has been shown."""
	hook = sys.excepthook

	def once(*what):
		sys.excepthook = hook
	sys.excepthook = once


def hint(text, what):
	"""TEXT with the last line that the interpreter itself prints: before 3.12 only that may end with
	a suggestion ("Did you mean ...")."""
	import io
	stderr, sys.stderr = sys.stderr, io.StringIO()
	sys.__excepthook__(*what)
	own, sys.stderr = sys.stderr.getvalue(), stderr
	last = text.rstrip('\n').rsplit('\n', 1)[-1]
	better = own.rstrip('\n').rsplit('\n', 1)[-1]
	if better.startswith(last) or better == '__main__.' + last:  # so before 3.10
		return text.rstrip('\n')[:-len(last)] + better + '\n'
	return text


def show(*what):
	"""Prints an exception as the interpreter does, which before 3.13 leaves out source lines that are
	in no file. False = the interpreter's own way is as good."""
	if sys.excepthook is not sys.__excepthook__ or sys.stderr is None or what[2] is None:
		return False
	sys.last_type, sys.last_value, sys.last_traceback = what
	import linecache
	import traceback
	lines = [line + '\n' for line in source.splitlines()]
	linecache.cache.setdefault(NAME, (len(source), None, lines, NAME))
	text = ''.join(traceback.format_exception(*what))
	sys.stderr.write(hint(text, what) if sys.version_info < (3, 12) else text)
	return True


def begin():
	"""Arguments of the exec() that is the run."""
	with open(SOURCE_FD, 'rb') as f:
		text = f.read()
	if watch:
		watch()
	watch_workers()
	keep_file(text)
	return load(text), sys.modules['__main__'].__dict__
