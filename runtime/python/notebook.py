# SPDX-License-Identifier: Apache-2.0
"""What a run with RT_NOTEBOOK does beyond `python3 -c`, as a notebook would: the value of a last expression,
`await` at the top level, and, with the texts of notebook_later(), `!command` and `%magic` lines and hints
before tracebacks.

Runs in the dictionary of boot.py. A run without an error pays for this file alone: the other texts are
executed in the zygote or, in a cold run, when they are needed."""
import _ast

RESULT_MAX = 16 << 20  # bytes of a result's text
VALUE = ' value'  # keeps the value of a cell that is one coroutine; no program can have such a name
OUT_MAX = 32  # values that Out keeps: each may be large
CANCEL_S = 0.2  # an interrupted cell may take so long to clean up
COROUTINE = 0x80  # flag of code objects that have an `await` at the top level
COLD_RESULT_FD, HIGH_RESULT_FD = 6, 104  # where a cold run gets the file for the result, and where it keeps it
SIMPLE = frozenset((int, str, float, bool, complex, bytes, list, tuple, dict, set, frozenset, range, type))
SHOWN_AS = 'mimebundle', 'html', 'markdown', 'svg', 'png', 'jpeg', 'latex', 'json', 'javascript'
LIGHT_NAMES = 'IPython', 'ipywidgets', 'matplotlib_inline', 'nest_asyncio', 'ace_tools', 'caas_jupyter_tools'
TABLE_MODULES = 'pandas.core.', 'polars.dataframe.', 'polars.series.'

has_history = False  # this is a session, with In and Out
later = []  # texts that notebook_later() executes
loop = loop_pid = None
result_fd = -1  # cold runs only
rich_fd, rich_n, rich_bytes = -1, 0, 0  # of rich.py: the file for records of this run, and what is in it


def notebook_later():
	"""Makes the functions of magics.py and tracebacks.py available."""
	while later:
		import binascii
		import zlib
		exec(zlib.decompress(binascii.a2b_base64(later[0])), globals())
		later.pop(0)


def parse(text, name, future=0):
	"""Returns the syntax tree of TEXT, the text without notebook syntax, and TEXT, or what it is after a repair. Notebook
	syntax is never valid Python, so it is looked for only after a SyntaxError."""
	flags = _ast.PyCF_ONLY_AST | future
	if notebook and ('display' in text or 'get_ipython' in text):  # a change of builtins would cost every run
		notebook_later()
		offer_names()
	try:
		return compile(text, name, 'exec', flags, dont_inherit=True), text, text
	except SyntaxError:
		if not notebook:
			raise
		notebook_later()
		changed = translate(text)
		if changed is None:
			text = repaired(text)
			if text is None:
				raise
			changed = translate(text)
	try:
		if changed is None:
			return compile(text, name, 'exec', flags, dont_inherit=True), text, text
		return compile(changed, name, 'exec', flags, dont_inherit=True), without_magics(text), text
	except SyntaxError as e:
		better = repaired(text)
		if better is not None:
			return parse(better, name, future)
		lines = text.splitlines()
		if e.lineno and e.lineno <= len(lines) and e.text != lines[e.lineno - 1] + '\n':
			e.text = lines[e.lineno - 1]
		e.__context__ = None
		raise


def take_last(tree, text):
	"""Removes the last statement from TREE if its value is to be shown, and returns it: an expression without a
	semicolon behind it."""
	last = tree.body[-1] if tree.body else None
	if not isinstance(last, _ast.Expr):
		return None
	# end_col_offset counts bytes of UTF-8; the parser splits lines at \n, \r\n and \r only
	lines = text.replace('\r\n', '\n').replace('\r', '\n').split('\n')
	after = lines[last.end_lineno - 1].encode('utf-8', 'replace')[last.end_col_offset:]
	if after.lstrip().startswith(b';'):
		return None
	tree.body.pop()
	return _ast.Expression(last.value)


def codes_of(tree, text, name, future=0):
	"""Returns the code of the statements and, if the last one is an expression, the code of that expression."""
	flags = future | (_ast.PyCF_ALLOW_TOP_LEVEL_AWAIT if notebook else 0)
	last = take_last(tree, text)
	try:
		code = compile(tree, name, 'exec', flags, dont_inherit=True)
		if not last:
			return code,
		value = compile(last, name, 'eval', flags, dont_inherit=True)
		if (code.co_flags | value.co_flags) & COROUTINE:  # one coroutine: both parts may use the loop that runs
			at = {key: getattr(last.body, key) for key in ('lineno', 'col_offset', 'end_lineno', 'end_col_offset')}
			tree.body.append(_ast.Assign([_ast.Name(VALUE, _ast.Store(), **at)], last.body, **at))
			code = compile(tree, name, 'exec', flags, dont_inherit=True)
			value = compile(_ast.Expression(_ast.Name(VALUE, _ast.Load(), **at)), name, 'eval', flags, dont_inherit=True)
		return code, value
	except SyntaxError as e:  # found after parsing: then it has no text
		lines = text.splitlines()
		if e.text is None and e.lineno and e.lineno <= len(lines):
			e.text = lines[e.lineno - 1]
		raise


def notebook_codes(text):
	"""The codes of a stateless run."""
	sent = text
	tree, plain, text = parse(text, NAME)
	if plain is not sent:
		keep_file(plain.encode('utf-8', 'replace'), '__file__' in plain)
	if 'get_event_loop' in text:  # from Python 3.14 on there is none, and most programs were written before
		session_loop()
	return codes_of(tree, text, NAME)


main = None  # in a fork: the module whose names are the program's


def result(value, fd):
	"""Writes the text of the last expression's value to FD and keeps the value as _."""
	space = (main or sys.modules['__main__']).__dict__  # the cell may have emptied sys.modules
	space.pop(VALUE, None)
	if value is None:
		return
	outputs = space.get('Out') if has_history else None
	if type(outputs) is dict:
		space['___'], space['__'] = space.get('__', ''), space.get('_', '')
		outputs[cells] = value
		if len(outputs) > OUT_MAX:
			del outputs[next(iter(outputs))]
	space['_'] = value
	if displaying and has_picture(value):
		values.append(value)
	text = (displaying and page_text(value) or repr(value)).encode('utf-8', 'backslashreplace')
	if len(text) > RESULT_MAX:
		half = RESULT_MAX // 2
		text = text[:half] + b'\n... %d byte%s left out ...\n' % (len(text) - RESULT_MAX, b'' if len(text) == RESULT_MAX + 1 else b's') + text[-half:]
	from posix import pwrite  # `os` is the program's
	at = 0
	while at < len(text):
		at += pwrite(fd, text[at:], at)
	if type(value) not in SIMPLE:
		rich_result(value)


def rich_result(value):
	"""Keeps more of the value than its text. What is drawn, display.py keeps at the end."""
	try:
		kind = type(value)
		if str(kind.__module__).startswith(TABLE_MODULES) or not (displaying and has_picture(value)) and \
				any(hasattr(kind, '_repr_%s_' % name) for name in SHOWN_AS):
			notebook_later()
			show_result(value)
	except Exception:  # of the program's own classes
		pass


def join_user_packages():
	"""True if pip has made the folder of the user's packages since this interpreter began: a module that is missing may be there now."""
	import os
	import site
	place = site.ENABLE_USER_SITE and site.getusersitepackages()
	if not place or place in sys.path or not os.path.isdir(place):
		return False
	site.addsitedir(place)
	return True


class LightFinder:
	"""Last in sys.meta_path: a light IPython and ipywidgets where the real ones are not installed."""

	@staticmethod
	def find_spec(name, path=None, target=None):
		if path is None and join_user_packages():
			from importlib.machinery import PathFinder
			spec = PathFinder.find_spec(name)
			if spec is not None:
				return spec
		if not name.startswith(LIGHT_NAMES):
			return None
		notebook_later()
		return light_spec(name)


def begin_rich(fd):
	global rich_fd, rich_n, rich_bytes
	rich_fd, rich_n, rich_bytes = fd, 0, 0
	if LightFinder not in sys.meta_path:
		sys.meta_path.append(LightFinder)


def session_loop():
	"""The event loop that all of a run uses, and all runs of a session, so that what the code has made in it can still
	be used."""
	global loop, loop_pid
	import asyncio
	import os
	if loop is None or loop.is_closed():
		import atexit
		loop = asyncio.new_event_loop()
		atexit.register(end_loop)
	elif loop_pid != os.getpid():
		renew_selector()
	elif not has_selector():
		renew_closed()
	loop_pid = os.getpid()
	asyncio.set_event_loop(loop)
	return loop


def wait(coroutine):
	"""Runs the coroutine of an `await` at the top level."""
	import asyncio
	loop = session_loop()
	if sys.version_info < (3, 11):
		context, task = {}, loop.create_task(coroutine)
	else:
		import contextvars
		context = contextvars.copy_context()
		task = loop.create_task(coroutine, context=context)
	try:
		try:
			return loop.run_until_complete(task)
		except OSError:
			if has_selector():
				raise
			renew_closed()
			return loop.run_until_complete(task)
	except KeyboardInterrupt:  # otherwise it would go on in a later cell
		task.cancel()
		loop.run_until_complete(asyncio.wait([task], timeout=CANCEL_S))
		where = task.done() and task.cancelled() and cancelled_at(task)
		if not where:
			raise
	finally:
		for variable, value in context.items():  # as in a cell that does not await
			if variable.get(variable) is not value:
				variable.set(value)
	raise KeyboardInterrupt().with_traceback(where) from None


def cancelled_at(task):
	"""Where it awaited: the traceback of the loop would show nothing of the cell."""
	try:
		task.result()
	except BaseException as e:
		# Before 3.11 what result() raises is another exception, and its context is the one that was raised there.
		return e.__traceback__.tb_next or e.__context__ and e.__context__.__traceback__


def renew_selector():
	"""A fork shares the kernel's side of the selector with the process before it, which may still be there as a
	checkpoint. So the fork gets a selector of its own."""
	import selectors
	old, new = loop._selector, selectors.DefaultSelector()
	for key in list(old.get_map().values()):
		new.register(key.fileobj, key.events, key.data)
	loop._selector = new
	old.close()


def has_selector():
	try:
		loop._selector.select(0)
		return True
	except OSError:
		return False
	except Exception:  # of a loop that the program has changed
		return True


closed_selectors = []  # their numbers may be those of other files by now, so they are not closed again


def renew_closed():
	"""The code has closed all descriptors, as daemons do, and with them those of the loop."""
	import selectors
	closed_selectors.append(loop._selector)
	loop._selector = selectors.DefaultSelector()
	loop._ssock.detach()
	loop._csock.detach()
	loop._internal_fds = 0
	loop._make_self_pipe()
	loop.call_soon(loop.stop)  # so that a stop which is still to come does not end what runs next
	loop.run_forever()


def end_loop():
	"""What asyncio.run() does at its end."""
	import os
	if loop is None or loop.is_closed() or loop_pid != os.getpid():
		return
	from asyncio import runners
	try:
		runners._cancel_all_tasks(loop)
		loop.run_until_complete(loop.shutdown_asyncgens())
	finally:
		loop.close()


def perform_cold():
	"""A cold run: what spare_run.c does in a warm one."""
	take_result()
	text, space = begin()
	for i, code in enumerate(text if isinstance(text, tuple) else (text,)):
		value = eval(code, space)
		if code.co_flags & COROUTINE:
			value = wait(value)
		if i:
			result(value, result_fd)


def show_error(kind, value, tb):
	"""Prints an exception that the code did not catch. Returns False if the interpreter shall do it."""
	if not notebook:
		return show(kind, value, tb) if sys.version_info < (3, 13) else False
	if sys.excepthook is not sys.__excepthook__ or sys.stderr is None:
		return False
	try:
		notebook_later()
	except Exception:  # no memory, for example
		return False
	return show_folded(kind, value, tb)


def take_result():
	"""Keeps the file for the result away from the low numbers, for programs that count their descriptors."""
	global notebook, result_fd
	import posix
	notebook = True
	try:
		result_fd = posix.dup2(COLD_RESULT_FD, HIGH_RESULT_FD, False)
		posix.close(COLD_RESULT_FD)
	except OSError:  # the limit of open files is lower
		result_fd = COLD_RESULT_FD
		posix.set_inheritable(result_fd, False)
	begin_rich(result_fd)
