# SPDX-License-Identifier: Apache-2.0
"""Makes a Python run look like `python3 -c SOURCE`. runtime/embed.py wraps this text for the command line.

A cold run is `python3 -c <this text>`. Descriptor 3 is the submitted source; nothing else above 2 is open.
__main__ is the interpreter's own and untouched, argv is ['-c'], sys.path[0] is '', the file name is
"<string>". Two things differ from -c: tracebacks show source lines on every version, and the source may have
any length. Warm runs use load() too. The rules are in docs/runtime-frames.md.

Before 3.13 an import of linecache would cost as much as the rest of the start. So on those versions the
lines are registered only when the traceback that ends the run needs them.

The names here live in a dictionary of their own, so nothing that submitted code does to its globals reaches
them. Code that digs can reach them, but only in its own interpreter."""
import sys

SOURCE_FD = 3
NAME = '<string>'
CODE_FOLDER = '/tmp/.caisson'
CODE_FILE = CODE_FOLDER + '/main.py'  # the value of __file__: the submitted code, for worker processes and for inspect
BESIDE = '.caisson-main.py'  # its name beside the files of the program, in a notebook's run that asks for __file__
beside = None  # the process that has made that file, and its path
source = ''
watch = finish = None  # functions of display.py, if the run saves figures
displaying = False  # the run saves figures
notebook = False  # the run has RT_NOTEBOOK: notebook.py
errors_are_records = False  # and RT_ERRORS: tracebacks.py
shows_after_error = False  # and an exception was kept as a record: rest() in cells.py
values = []  # values of last expressions, to be shown at the end of the run


def load(text):
	"""Returns the code object of the source bytes TEXT and registers the lines with linecache, as the
	interpreter does. If the run has RT_NOTEBOOK, it returns a tuple of them: notebook_codes()."""
	raw = text
	try:
		text = text.decode()
	except UnicodeDecodeError:
		return compile(raw, NAME, 'exec', dont_inherit=True)  # fails as a file would, or heeds its coding cookie
	version = sys.version_info[:2]
	if version >= (3, 14) and NAME[0] == '<' and text.lstrip('\r\n')[:1] in (' ', '\t'):
		import textwrap
		text = textwrap.dedent(text)  # -c does so since 3.14
	if version >= (3, 10) and NAME[0] == '<':
		sys.orig_argv[1:] = '-c', text
	# Compile first: a SyntaxError takes the line that it shows from itself, not from linecache.
	if notebook:
		code = notebook_codes(text)
	else:
		code = compile(text if version >= (3, 10) else raw, NAME, 'exec', dont_inherit=True)  # 3.9 heeds a coding cookie
	if version >= (3, 13):  # as the interpreter does; older versions register nothing: see show()
		import linecache
		register = linecache._register_code
		by_code = register.__code__.co_varnames[0] == 'code'  # the first releases of 3.13 have the name of the source instead
		for one in code if notebook else (code,):
			register(one if by_code else NAME, text, NAME)
	else:
		global source
		source = text
	return code


def write_code(path, text):
	try:
		import posix
		flags = posix.O_WRONLY | posix.O_CREAT | posix.O_EXCL | posix.O_NOFOLLOW | posix.O_CLOEXEC
		try:  # a new file each time: ext4 begins to write a truncated one to the disk when it is closed
			posix.unlink(path)
		except OSError:
			pass
		try:
			fd = posix.open(path, flags, 0o600)
		except FileNotFoundError:
			posix.mkdir(path.rpartition('/')[0], 0o700)
			fd = posix.open(path, flags, 0o600)
		try:
			return posix.write(fd, text) == len(text)
		finally:
			posix.close(fd)
	except OSError:
		return False


def keep_file(text, asked=False):
	"""Writes TEXT to CODE_FILE, which becomes __main__.__file__. Spawned workers import that file; inspect and
	programs read it. If /tmp has no room, there is no such file and no __file__.

	ASKED: the code has the word __file__. Programs look for their data beside it, and save results there, so the
	file is in the working folder until the run ends."""
	space = sys.modules['__main__'].__dict__
	if write_code(CODE_FILE, text):
		space['__file__'] = CODE_FILE
	elif space.get('__file__') == CODE_FILE:
		del space['__file__']
	if not asked:
		return
	global beside
	import atexit
	import posix
	folder = posix.getcwd()
	path = (folder if folder.startswith('/mnt/data') else '/mnt/data') + '/' + BESIDE
	if write_code(path, text):
		if beside is None:
			atexit.register(forget_file)
		beside = posix.getpid(), path
		space['__file__'] = path


def forget_file():
	"""A run has ended, or this is a fork of one."""
	import posix
	if beside is None or beside[0] != posix.getpid():
		return
	space = sys.modules['__main__'].__dict__
	if space.get('__file__') == beside[1]:
		space['__file__'] = CODE_FILE
	try:
		posix.unlink(beside[1])
	except OSError:
		pass


def prefer_fork(context):
	"""Makes worker processes forks unless the program chooses another way. Forks have everything that the code
	defined, with or without `if __name__ == '__main__'`, and start in a millisecond. Since 3.14 the
	interpreter's own choice is forkserver, whose workers import the main program again."""
	context._default_context._default_context = context._concrete_contexts['fork']


class ForkFinder:
	"""Stands first in sys.meta_path until multiprocessing is imported."""

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
	"""Removes the loader's own frame from the traceback of an exception that submitted code did not catch.

	A with statement re-raises without adding a traceback entry. It finds __exit__ on its stack, not by a
	name that submitted code could have changed."""

	def __enter__(self):
		pass

	def __exit__(self, kind, value, tb, ours=globals(), version=sys.version_info[:2],
	             isinstance=isinstance, KeyboardInterrupt=KeyboardInterrupt, SystemExit=SystemExit,
	             Exception=Exception):
		if value is None or isinstance(value, SystemExit):
			if finish and (value is None or value.code in (None, 0)):
				finish(values)
			return
		tb = tb.tb_next
		while tb is not None and tb.tb_frame.f_globals is ours:
			tb = tb.tb_next
		value.__traceback__ = tb
		if notebook and not isinstance(value, KeyboardInterrupt) and show_error(kind, value, tb):
			raise SystemExit(1)
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
				be_silent()  # and let the exception end the process by SIGINT
				return
			raise SystemExit(1)
		if shown:
			raise SystemExit(1)


def call_hook(*what):
	"""Calls sys.excepthook as the interpreter does."""
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
	"""The next uncaught exception has been shown already: do not show it again."""
	hook = sys.excepthook

	def once(*what):
		sys.excepthook = hook
	sys.excepthook = once


def hint(text, what):
	"""Returns TEXT with the last line that the interpreter itself prints: before 3.12 only that line may end
	with a suggestion ("Did you mean ...")."""
	import io
	stderr, sys.stderr = sys.stderr, io.StringIO()
	sys.__excepthook__(*what)
	own, sys.stderr = sys.stderr.getvalue(), stderr
	last = text.rstrip('\n').rsplit('\n', 1)[-1]
	better = own.rstrip('\n').rsplit('\n', 1)[-1]
	if better.startswith(last) or better == '__main__.' + last:  # the interpreter prints this prefix before 3.10
		return text.rstrip('\n')[:-len(last)] + better + '\n'
	return text


def show(*what):
	"""Prints an exception as the interpreter does, but with source lines: before 3.13 the interpreter leaves
	out lines that are in no file. Returns False if the interpreter's own way is as good."""
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


def take_arguments():
	"""What follows -c and this text on the command line is the sys.argv of the run. If it begins with a path, the
	code is that file's. Returns whether it is."""
	global NAME
	if len(sys.argv) == 1:
		return False
	del sys.argv[0]
	if sys.argv[0][:1] != '/':
		return False
	NAME = sys.argv[0]
	sys.path[0] = NAME.rpartition('/')[0]
	if sys.version_info >= (3, 10):
		sys.orig_argv[1:] = sys.argv
	sys.modules['__main__'].__dict__['__file__'] = NAME
	return True


def begin():
	"""Returns the arguments of the exec() that is the run."""
	with open(SOURCE_FD, 'rb') as f:
		text = f.read()
	global displaying
	if watch:
		displaying = True
		watch()
	watch_workers()
	if not take_arguments():
		keep_file(text, notebook and b'__file__' in text)
	return load(text), sys.modules['__main__'].__dict__
