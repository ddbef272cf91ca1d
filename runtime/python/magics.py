# SPDX-License-Identifier: Apache-2.0
"""Notebook syntax: `!command`, `name = !command`, `%magic`, `%%magic` for a whole program, `name?`, and `pip install x`
without anything before it.

A program with such lines is no Python, so the compiler has refused it before this file is asked. Each such line
becomes a call of a function in builtins, on the same line, so line numbers stay right. Tracebacks show the line
as it was written."""
import builtins
import os
import re

CELL = re.compile(r'\s*%%(\w+|!)[ \t]*([^\n]*)\n?')
BELOW = re.compile(r'%%(?:[A-Za-z]\w*|!)(?:\s|$)')
TARGET = re.compile(r'([A-Za-z_][\w.]*(?:\s*,\s*[A-Za-z_]\w*)*)\s*=\s*(?=!|%[A-Za-z])')
MAGIC = re.compile(r'%([A-Za-z_]\w*)\s*(.*)')
INSTALL = re.compile(r'(?:(?:python3?\s+-m\s+)?pip3?|uv(?:\s+pip)?|conda|mamba|apt|apt-get)\s+(?:install|uninstall|list|show|freeze)\b(?!\s*[=(.])')
LOOK = re.compile(r'(\?{1,2})?([A-Za-z_][\w.]*)(\?{1,2})?')
TOKENS = re.compile(r'"""|\'\'\'|["\'#()\[\]{}]|\\.', re.S)

# Magics that change how a notebook looks, or what only a notebook has: nothing is lost without them.
IGNORED = frozenset('''matplotlib pylab config load_ext reload_ext unload_ext autoreload precision colors xmode pdb automagic
	logstart logstop gui doctest_mode capture_off history hist notebook pprint rehashx alias page pastebin
	aimport autocall autosave bookmark magic lsmagic quickref connect_info reset_selective prun lprun mprun memit
	mprun watermark tensorboard debug store edit macro'''.split())
INSTALLS = re.compile(r'\b(?:pip3?|uv|conda|mamba)\b.*\b(?:install|add)\b')
TIMEIT_OPTIONS = r'^(?:\s*-[nrtcpqo]\s*\d*)+\s+'
SPECIFIER = re.compile(r'(?<!\S)[A-Za-z][\w.-]*(?:\[[\w,.-]*\])?(?:(?:[<>~!]=?|===?)\d[\w.*+!]*(?:,\s?(?=[<>~!=]))?)+(?=[\s;&|]|$)')
PIP = re.compile(r'\b(?:pip3?|uv|conda|mamba)\b[^;&|\n]*\b(?:install|add)\b[^;&|\n]*')
BLANKS = re.compile(r'(?<=[\w\]]) *([<>=~!]=) *(?=\d)')
OF_SHELL = frozenset('pip pip3 conda mamba uv ls ll mkdir rmdir rm cp mv cat less more man head tail'.split())


# What a line becomes ----------------------------------------------------------------------------------


def call_of(line):
	"""Returns the Python statement for a line of notebook syntax, or None if it has none."""
	body = line.strip()
	indent = line[:len(line) - len(line.lstrip())]
	target = TARGET.match(body)
	if target:
		body = body[target.end():]
	before = indent + (target.group(1) + ' = ' if target else '')
	if body.startswith('!') and body[1:2] != '=':
		kind = 'lines' if target or body.startswith('!!') else 'sh'
		return '%s_caisson_line(%r, %r)' % (before, kind, body.lstrip('!').strip())
	magic = MAGIC.fullmatch(body)
	if magic:
		return '%s_caisson_line(%r, %r)' % (before, '%' + magic.group(1), magic.group(2))
	if target:
		return None
	if INSTALL.match(body):
		return '%s_caisson_line(%r, %r)' % (indent, 'sh', body)
	look = LOOK.fullmatch(body)
	if look and (look.group(1) or look.group(3)):
		return '%s_caisson_line(%r, %r)' % (indent, '?', look.group(2))
	return None


def scan(line, depth, quote):
	"""Follows brackets and strings through a line of Python; returns both as they are at its end."""
	for token in TOKENS.findall(line):
		if quote:
			quote = '' if token == quote else quote
		elif token == '#':
			break
		elif token[0] in '"\'':
			quote = token
		elif token in '([{':
			depth += 1
		elif token in ')]}':
			depth = max(0, depth - 1)
	return depth, quote if len(quote) == 3 else ''


def changed_lines(text, make):
	"""Returns TEXT with MAKE(call, line) in place of each line of notebook syntax, or None if there is none. Lines
	inside strings and brackets are no such lines."""
	lines = text.split('\n')
	depth, quote, found, going_on = 0, '', False, False
	i = 0
	while i < len(lines):
		line = lines[i]
		call = None if depth or quote or going_on else call_of(line.rstrip('\r'))
		if call is None:
			depth, quote = scan(line, depth, quote)
			going_on = line.endswith('\\')
			i += 1
			continue
		found = True
		first = i
		whole = line.rstrip('\r')
		while whole.endswith('\\') and i + 1 < len(lines):  # a command goes on in the next line
			i += 1
			whole = whole[:-1] + lines[i].rstrip('\r')
			lines[i] = ''
		lines[first] = make(call_of(whole) or call, whole)
		i += 1
	return '\n'.join(lines) if found else None


def cell_of(text):
	"""(TEXT as far as it stands above its first line with %%, the rest), or None. A notebook wants that line to be the first one; what
	stands above it most often is a comment or an import."""
	if CELL.match(text):
		return '', text
	if '%%' not in text:
		return None
	depth, quote, going_on, at = 0, '', False, 0
	for line in text.splitlines(True):
		if not (depth or quote or going_on) and BELOW.match(line):
			return text[:at], text[at:]
		depth, quote = scan(line, depth, quote)
		going_on = line.rstrip('\r\n').endswith('\\')
		at += len(line)
	return None


def translate(text):
	parts = cell_of(text)
	if parts:
		above, rest = parts
		cell = CELL.match(rest)
		builtins._caisson_cell = run_cell_magic
		before = (above + rest[:cell.end()]).count('\n')
		below = any(line.strip() and line.lstrip()[0] != '#' for line in above.splitlines())
		return '%s_caisson_cell(%r, %r, %r, %r)\n' % (translate(above) or above, cell.group(1), cell.group(2).strip(), '\n' * before + rest[cell.end():], below)
	changed = changed_lines(text, lambda call, line: call)
	if changed is not None:
		builtins._caisson_line = run_line
	return changed


def without_magics(text):
	"""TEXT as a module that worker processes can import."""
	def nothing(call, line):
		before, equals, after = call.partition(' = _caisson_line(')
		return before + ' = None' if equals else line[:len(line) - len(line.lstrip())] + 'pass'
	parts = cell_of(text)
	if parts:
		return (without_magics(parts[0]) or parts[0]) + 'pass\n'
	return changed_lines(text, nothing)


# What such a line does --------------------------------------------------------------------------------


def tell(text):
	sys.stderr.write('Note: %s\n' % text)


def run_line(kind, rest):
	frame = sys._getframe(1)
	if kind == 'sh':
		return shell(filled(rest, frame))
	if kind == 'lines':
		return shell_lines(filled(rest, frame))
	if kind == '?':
		return look_at_name(rest, frame)
	name = kind[1:]
	if name in OF_SHELL:
		return shell(filled((name + ' ' + rest).strip(), frame))
	if name == 'autoreload' and has_history:
		return autoreload(rest)
	if name == 'load_ext' and rest.strip() == 'autoreload' and has_history:
		return None
	if name in IGNORED:
		return tell('%' + name + ' means nothing outside a notebook; it was ignored.')
	does = LINE_MAGICS.get(name)
	if does is None:
		raise NameError('%' + name + ' is a magic of notebooks that does not exist here: write it in Python')
	return does(filled(rest, frame) if name not in ('time', 'timeit') else rest, frame)


def filled(command, frame):
	"""Puts values of Python into a command, as IPython does: {expression}, and $name of a variable that exists."""
	def expression(found):
		try:
			return str(eval(found.group(1), frame.f_globals, frame.f_locals))
		except Exception:
			return found.group()

	def variable(found):
		for space in frame.f_locals, frame.f_globals:
			if isinstance(space.get(found.group(1)), (str, int, float, os.PathLike)):
				return str(space[found.group(1)])
		return found.group()
	command = re.sub(r'(?<!\$)\{([A-Za-z_][^{}\n]*)\}', expression, command)
	return re.sub(r'(?<!\$)\$([A-Za-z_]\w*)', variable, command)


def shell_words(command):
	import shutil
	return [shutil.which('bash') or '/bin/sh', '-c', command]


def quoted(command):
	"""COMMAND with versions of pip in quotes: the shell would take the > of `pip install a>=2` for a redirection."""
	return SPECIFIER.sub(lambda found: "'%s'" % found.group().replace(' ', ''), PIP.sub(lambda found: BLANKS.sub(r'\1', found.group()), command)) if INSTALLS.search(command) else command


def shell(command):
	import subprocess
	command = quoted(command)
	for file in sys.stdout, sys.stderr:
		if file is not None:
			file.flush()
	status = subprocess.call(shell_words(command))
	sys.modules['__main__'].__dict__['_exit_code'] = status
	if status:
		tell('the command ended with exit status %d.' % status)


def through(words, text):
	"""Runs the program WORDS with TEXT as its input."""
	import subprocess
	for file in sys.stdout, sys.stderr:
		if file is not None:
			file.flush()
	status = subprocess.run(words, input=text.encode()).returncode
	if status:
		tell('the command ended with exit status %d.' % status)


class Lines(list):
	"""The lines of a command, with the names that IPython gives them."""
	@property
	def n(self):
		return '\n'.join(self)

	@property
	def s(self):
		return ' '.join(self)

	l = property(list)
	nlstr, spstr, list = n, s, l


def shell_lines(command):
	import subprocess
	done = subprocess.run(shell_words(quoted(command)), stdout=subprocess.PIPE, text=True, errors='replace')
	sys.modules['__main__'].__dict__['_exit_code'] = done.returncode
	return Lines(done.stdout.splitlines())


def look_at_name(name, frame):
	import inspect
	value = eval(name, frame.f_globals, frame.f_locals)
	try:
		print(name.rpartition('.')[2] + str(inspect.signature(value)))
	except (TypeError, ValueError):
		print('%s: %s' % (name, type(value).__name__))
	print(inspect.getdoc(value) or 'It has no documentation.')


def evaluate(source, frame):
	"""Runs SOURCE in the program's variables; returns the value of its last expression."""
	value = None
	name = frame.f_code.co_filename
	tree, plain, source = parse(source, name)
	for i, code in enumerate(codes_of(tree, source, name)):
		value = eval(code, frame.f_globals)
		if code.co_flags & COROUTINE:
			value = wait(value)
		value = value if i else None
	return value


def timed(source, frame):
	import time
	wall, cpu = time.perf_counter(), time.process_time()
	value = evaluate(source, frame)
	cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
	print('CPU time: %.3g s, wall time: %.3g s' % (cpu, wall))
	return value


def timed_often(source, frame, before='pass'):
	import timeit
	source = re.sub(TIMEIT_OPTIONS, '', source)
	timer = timeit.Timer(source.strip('\n'), re.sub(TIMEIT_OPTIONS, '', before + ' ').strip() or 'pass', globals=frame.f_globals)
	number, taken = timer.autorange()
	best = min([taken] + timer.repeat(2, number)) / number
	print('%.3g s for each of %d loops (best of 3)' % (best, number))


folders = []  # the last one, for %cd -


def change_folder(path, frame):
	before, path = os.getcwd(), path.strip().strip('"\'')
	os.chdir(folders[0] if path == '-' and folders else os.path.expanduser(path or '~'))
	folders[:] = [before]
	print(os.getcwd())


def set_variable(text, frame):
	name, equals, value = text.partition('=') if '=' in text else text.partition(' ')
	if not equals:
		return os.environ.get(name) if name else dict(os.environ)
	os.environ[name.strip()] = value.strip().strip('"\'')


def run_file(text, frame):
	import runpy
	import shlex
	words = shlex.split(text)
	before = sys.argv
	offer_names()  # the file may name them where the cell does not
	sys.argv = words or ['']
	try:
		found = runpy.run_path(words[0], run_name='__main__')
	finally:
		sys.argv = before
	frame.f_globals.update((k, v) for k, v in found.items() if not k.startswith('__'))


def list_names(text, frame):
	print('  '.join(sorted(n for n in frame.f_globals if n[:1] != '_')))


LINE_MAGICS = {
	'time': timed, 'timeit': timed_often, 'cd': change_folder, 'pwd': lambda text, frame: os.getcwd(),
	'env': set_variable, 'set_env': set_variable, 'run': run_file, 'who': list_names, 'whos': list_names,
	'sx': lambda text, frame: shell_lines(text), 'system': lambda text, frame: shell_lines(text),
	'pinfo': lambda text, frame: look_at_name(text, frame), 'reset': lambda text, frame: frame.f_globals.clear(),
}


class Captured:
	"""What %%capture NAME gives."""
	outputs = ()

	def __str__(self):
		return self.stdout

	__repr__ = __call__ = __str__

	def show(self):
		sys.stdout.write(self.stdout)
		sys.stderr.write(self.stderr)


def run_cell_magic(name, rest, body, below):
	frame = sys._getframe(1)
	if name == 'caisson':  # the front has put this line before the code
		return run_script(rest, body[1:])
	if below:
		tell('%%' + name + ' is not the first line of the code: it was taken for the lines below it.')
	if name in ('time', 'python', 'python3', 'pypy', 'prun', 'snakeviz'):
		return timed(body, frame) if name == 'time' else evaluate(body, frame)
	if name == 'timeit':
		return timed_often(body, frame, rest)
	if name == 'capture':
		import contextlib
		import io
		kept = Captured()
		with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
			evaluate(body, frame)
		kept.stdout, kept.stderr = out.getvalue(), err.getvalue()
		frame.f_globals.update((word, kept) for word in rest.split()[:1] if word.isidentifier())
		return None
	if name == 'script' and rest.split()[:1] not in ([], ['bash'], ['sh']) or name in ('perl', 'ruby'):
		import shlex
		return through(shlex.split(rest) if name == 'script' else [name] + shlex.split(rest), body.lstrip('\n'))
	if name in ('bash', 'sh', 'script', '!', 'sx', 'system', 'cmd'):
		return shell(body.lstrip('\n'))
	if name in ('writefile', 'file'):
		append = rest.startswith('-a ')
		path = os.path.expanduser(rest[3 if append else 0:].strip().strip('"\''))
		with open(path, 'a' if append else 'w') as f:
			f.write(body.lstrip('\n'))
		return print('%s %s' % ('Appended to' if append else 'Wrote', path))
	shown = {'html': 'HTML', 'svg': 'SVG', 'latex': 'Latex', 'markdown': 'Markdown'}.get(name.lower())
	if shown:
		from IPython import display as ipython
		return display(getattr(ipython, shown)(body.lstrip('\n')))
	if name in LANGUAGES:
		return run_script(name, body)
	raise NameError('%%' + name + ' is a magic of notebooks that does not exist here: ' + ('duckdb.sql("""...""") runs SQL' if name == 'sql' else 'write it in Python'))
