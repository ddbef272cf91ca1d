# SPDX-License-Identifier: Apache-2.0
"""How a run with RT_NOTEBOOK shows an exception that its code did not catch: a hint first, then the traceback
with the program's own frames, and the middle of what libraries did in one line. If something is left out, the
whole traceback is in WHOLE_FILE.

The format is the interpreter's own. Nothing here may raise: then the interpreter shows the exception."""
import os

WHOLE_FILE = CODE_FOLDER + '/traceback.txt'
WHOLE_MAX = 1 << 20  # bytes of that file
ERROR = 'application/vnd.caisson.error+json'  # sandbox/shown.h has the same
LIBRARY_KEPT = 2  # so many frames of libraries in a row are shown; of more, the first and the last
OWN_KEPT = 20  # so many frames of the program in a row are shown; of more, the first and the last half
WORDS_MIN = 8  # letters of an error that a later one repeats
SAME_MAX = 3  # frames that repeat; the interpreter says how often
COMPILED = '.pyx', '.pxi', '.pxd'  # source of compiled modules, whose names have no folder
UNREACHABLE = 101  # ENETUNREACH
library_folders = ()


def is_library(filename):
	global library_folders
	if not library_folders:
		library_folders = os.path.dirname(os.__file__) + '/', '/usr/lib/', '<frozen '
	return filename.startswith(library_folders) or '-packages/' in filename or filename.endswith(COMPILED)


def package_of(filename):
	before, found, inside = filename.partition('-packages/')
	if not found and filename.endswith(COMPILED):
		return filename.partition('/')[0]
	return inside.partition('/')[0] if found else 'Python'


def groups_of(frames):
	"""Splits a list of frames into lists of neighbours: all of libraries, or all of the program."""
	groups = []
	for frame in frames:
		library = is_library(frame.filename)
		if groups and groups[-1][0] == library:
			groups[-1][1].append(frame)
		else:
			groups.append((library, [frame]))
	return groups


def fold_line(frames, library):
	where = ''
	if library:
		names = list(dict.fromkeys(package_of(frame.filename) for frame in frames))
		where = ' in ' + ', '.join(names[:3]) + (', ...' if len(names) > 3 else '')
	return '  [... %d more frame%s%s; the whole traceback is in %s ...]\n' % (
		len(frames), '' if len(frames) == 1 else 's', where, WHOLE_FILE)


def repeats(frames):
	"""True if the interpreter itself shows these frames as one that repeats."""
	return len({(f.filename, f.lineno, f.name) for f in frames[-SAME_MAX - 1:]}) == 1


def is_offline(error):
	"""True if ERROR came of a name that could not be looked up, or of a network that is not there: nobody needs the lines
	of libraries to understand it."""
	for _ in range(16):
		if error is None or type(error).__name__ == 'gaierror' or isinstance(error, OSError) and error.errno == UNREACHABLE:
			return error is not None
		error = error.__cause__ or error.__context__
	return False


def fold(frames, text_of, brief):
	"""Returns the lines of FRAMES, and whether some are left out. BRIEF: no frame of a library is shown."""
	lines, folded = [], False
	for library, group in groups_of(frames):
		keep = (0 if brief else LIBRARY_KEPT) if library else OWN_KEPT
		first, last = keep // 2, keep // 2
		if len(group) <= keep or not library and repeats(group):
			lines += text_of(group)
			continue
		folded = True
		lines += text_of(group[:first])
		lines.append(fold_line(group[first:len(group) - last], library))
		lines += text_of(group[len(group) - last:])
	return lines, folded


def every(error):
	"""The exceptions that belong to a traceback.TracebackException: causes, contexts, members of groups."""
	found, waiting, known = [], [error], set()
	while waiting:
		error = waiting.pop()
		if error is None or id(error) in known:
			continue
		known.add(id(error))
		found.append(error)
		waiting += [error.__cause__, error.__context__] + list(getattr(error, 'exceptions', None) or ())
	return found


def without_ours(tb):
	"""Removes our own frames from a traceback, and those of asyncio before the program's first one."""
	kept = []
	ours = globals()
	while tb is not None:
		by_wait = not kept and loop is not None and '/asyncio/' in tb.tb_frame.f_code.co_filename
		if tb.tb_frame.f_globals is not ours and not by_wait:
			kept.append(tb)
		tb = tb.tb_next
	for one, after in zip(kept, kept[1:] + [None]):
		one.tb_next = after
	return kept[0] if kept else None


def folded_text(kind, value, tb):
	"""Returns the text to show, and the whole one if that is longer."""
	import traceback

	class Folded(traceback.StackSummary):
		folded = False

		def format(self, **more):
			lines, folded = fold(self, lambda group: traceback.StackSummary.format(traceback.StackSummary.from_list(group), **more), brief)
			Folded.folded |= folded
			return lines

	def within(one):
		return one.stack and all(is_library(frame.filename) for frame in one.stack)

	brief = is_offline(value)

	def told(cause, text):
		"""True if libraries alone raised CAUSE and what led to it, and TEXT, of a later error, has their words."""
		return cause is None or (within(cause) and len(str(cause)) >= WORDS_MIN and str(cause) in text
			and told(cause.__cause__, text) and (cause.__suppress_context__ or told(cause.__context__, text)))

	whole = ''.join(traceback.format_exception(kind, value, tb))
	error = traceback.TracebackException(kind, value, tb)
	for one in every(error):
		cause = one.__cause__
		if cause is not None and within(cause) and list(cause.format_exception_only()) == list(one.format_exception_only()):
			one.__cause__, one.__suppress_context__ = None, True  # a library raised the same once more
			Folded.folded = True
		earlier = cause if cause is not None or one.__suppress_context__ else one.__context__
		if earlier is not None and one.__cause__ is cause and told(earlier, str(one)):
			one.__cause__, one.__suppress_context__ = None, True  # such as urllib3's three, whose words requests repeats
			Folded.folded = True
		if one.stack is None:
			continue
		if one is not error and within(one):
			one.stack = None  # caught before it reached the program: its last line says what it was
			Folded.folded = True
		else:
			one.stack = Folded(one.stack)
	text = ''.join(error.format())
	return text, whole if Folded.folded else None


def keep_whole(text):
	try:
		flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
		os.makedirs(CODE_FOLDER, 0o700, exist_ok=True)
		fd = os.open(WHOLE_FILE, flags, 0o600)
		try:
			os.write(fd, text.encode('utf-8', 'backslashreplace')[:WHOLE_MAX])
		finally:
			os.close(fd)
	except OSError:
		pass  # no room; what matters is shown


def record_error(value, text):
	"""Keeps an exception for a client that wants to know its parts."""
	try:
		said = str(value)
	except Exception:
		said = ''
	return record(DISPLAY, {'text/plain': text, ERROR: {'name': type(value).__name__, 'value': said, 'traceback': text}})


def show_foreign(error):
	"""Prints an error of another language: its text is whole."""
	if not (errors_are_records and record(DISPLAY, {'text/plain': error.text, ERROR: {'name': error.name, 'value': str(error), 'traceback': error.text}})):
		sys.stderr.write(error.text)
	return True


def show_folded(kind, value, tb):
	if kind in (ForeignError, ForeignInterrupt):
		return show_foreign(value)
	try:
		tb = without_ours(tb)
		value.__traceback__ = tb
		if sys.version_info < (3, 13):
			import linecache
			lines = [line + '\n' for line in source.splitlines()]
			linecache.cache.setdefault(NAME, (len(source), None, lines, NAME))
		text, whole = folded_text(kind, value, tb)
		if whole is not None:
			keep_whole(whole)
		if sys.version_info < (3, 12):
			text = hint(text, (kind, value, tb))
		advice = advice_for(value, tb)
	except Exception:
		return False
	sys.last_type, sys.last_value, sys.last_traceback = kind, value, tb
	if sys.version_info >= (3, 12):
		sys.last_exc = value
	text = ('Hint: %s\n' % advice if advice else '') + text
	global shows_after_error
	shows_after_error = errors_are_records and record_error(value, text)
	if not shows_after_error:
		sys.stderr.write(text)
	return True
