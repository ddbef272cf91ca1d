#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Unit tests of what runs do as in a notebook: runtime/python/{notebook,magics,repairs,tracebacks,advice,rich}.py, loaded into this
interpreter. tests/integration/notebook.test.ts looks at the same through the whole program."""
import ast
import asyncio
import io
import os
import random
import struct
import sys
import tempfile
import traceback

SOURCES = os.path.join(os.path.dirname(os.path.abspath(__file__)), '../../../runtime/python')
ours = {'__name__': 'caisson', 'page_text': lambda value: None}
for part in 'boot', 'notebook', 'magics', 'repairs', 'tracebacks', 'charset', 'kinds', 'advice', 'rich':
	with open('%s/%s.py' % (SOURCES, part)) as f:
		exec(compile(f.read(), part, 'exec'), ours)
ours['notebook'] = True
call = '_caisson_line(%r, %r)'

# code, and what it becomes; None = it has no notebook syntax
TRANSLATED = (
	('x = = 1', None),
	('a = b % c\nd = (e\n%f)', None),
	('x != y', None),
	('pip = 1\npip.install\nprint("%d" % 3)', None),
	('!ls', call % ('sh', 'ls')),
	('  !ls -l  ', '  ' + call % ('sh', 'ls -l')),
	('if x:\n\t!ls\nelse:\n\t!!pwd', 'if x:\n\t' + call % ('sh', 'ls') + '\nelse:\n\t' + call % ('lines', 'pwd')),
	('a = !ls\nb.c = %pwd', 'a = ' + call % ('lines', 'ls') + '\nb.c = ' + call % ('%pwd', '')),
	('%matplotlib inline', call % ('%matplotlib', 'inline')),
	('s = """\n!a\n%b\n"""\n!c', 's = """\n!a\n%b\n"""\n' + call % ('sh', 'c')),
	("s = '''it's\n!a'''\n!c", "s = '''it's\n!a'''\n" + call % ('sh', 'c')),
	('s = "(" # [\n!a', 's = "(" # [\n' + call % ('sh', 'a')),
	('f(1\n%s,\n)\n!a', 'f(1\n%s,\n)\n' + call % ('sh', 'a')),
	('x = 1 + \\\n2\n!a \\\n  b\ny', 'x = 1 + \\\n2\n' + call % ('sh', 'a   b') + '\n\ny'),
	('!echo "it\'s" (\nx', call % ('sh', 'echo "it\'s" (') + '\nx'),
	('pip install x\npython -m pip install y', call % ('sh', 'pip install x') + '\n' + call % ('sh', 'python -m pip install y')),
	('?f\ng.h??', call % ('?', 'f') + '\n' + call % ('?', 'g.h')),
	('%%time\nx', '_caisson_cell(%r, %r, %r, False)\n' % ('time', '', '\nx')),
	('\n%%bash -e\na\nb', '_caisson_cell(%r, %r, %r, False)\n' % ('bash', '-e', '\n\na\nb')),
	('# y\n%%time\nx', '# y\n_caisson_cell(%r, %r, %r, False)\n' % ('time', '', '\n\nx')),
	('!y\n%%!\nx', call % ('sh', 'y') + '\n_caisson_cell(%r, %r, %r, True)\n' % ('!', '', '\n\nx')),
	('y = (\n%%time\n)\nx = """\n%%time"""', None),
)


# code that is no Python, and what it becomes; None = it stays
REPAIRED = (
	('```python\nx = 1\n```', '\nx = 1\n'),
	('Here it is:\n~~~\nx\n~~~\nIt prints x.', '\n\nx\n\n'),
	('x = 1\n```', 'x = 1'),
	('```\n!ls\nawait x\n```', '\n!ls\nawait x\n'),
	("a = \'\'\'\n```\nb\n```\n\'\'\'\nc = = 3", None),
	('```\nx = = 1\n```', None),
	('>>> if x:\n...     y\n...\nno output (\n>>> z', 'if x:\n    y\n\n\nz'),
	('In [1]: x = (1,\n   ...:      2)\nOut[1]: 3', 'x = (1,\n     2)\n'),
	('import a\\nprint("b\\\\n")', 'import a\nprint("b\\n")'),
	('x = "\u201chere\u201d"\ny = \u201cit\u2019s\u201d\xa0+ \u2018a\u2019', 'x = "\u201chere\u201d"\ny = "it\u2019s" + \'a\''),
	('f\uff081\uff0c2\uff09 \u2013 x \u2265 3', 'f(1,2) - x >= 3'),
	('\ufeffx', 'x'),
	('  if x:\n    y', 'if x:\n  y'),
	('if x &gt; 1 &amp;&amp; y: z', None),
	('if x &gt; 1: y = "&amp;"', 'if x > 1: y = "&"'),
	('```\nx = \u201ca\u201d\n```', '\nx = "a"\n'),
	('x \u20ac 1', None),
)


def test_repaired():
	kept = sys.stderr
	sys.stderr = io.StringIO()
	try:
		for code, wanted in REPAIRED:
			got = ours['repaired'](code)
			assert got == wanted, (code, got, wanted)
		assert sys.stderr.getvalue().count('Note: the code had fences of Markdown (```) and typographic characters, and ran without.') == 1, sys.stderr.getvalue()
	finally:
		sys.stderr = kept


def test_names():
	"""All texts share one dictionary, so a name belongs to one of them. boot.py has two that display.py replaces."""
	owners = {}
	for part in sorted(os.listdir(SOURCES)):
		if part.endswith('.py') and part not in ('bare.py', 'limits.py', 'installer.py'):
			with open(os.path.join(SOURCES, part)) as f:
				body = ast.parse(f.read()).body
			for node in body:
				targets = getattr(node, 'targets', [getattr(node, 'target', None)])
				names = {n.id for target in targets if target for n in ast.walk(target) if isinstance(n, ast.Name)}
				for name in names | ({node.name} if hasattr(node, 'name') else set()):
					owners.setdefault(name, set()).add(part)
	twice = {name: parts for name, parts in owners.items() if len(parts) > 1}
	assert twice == {'watch': {'boot.py', 'display.py'}, 'finish': {'boot.py', 'display.py'}}, twice


def test_translate():
	for code, wanted in TRANSLATED:
		got = ours['translate'](code)
		assert got == wanted, (code, got, wanted)
		if wanted is not None and '%%' not in code:
			assert got.count('\n') == code.count('\n'), 'line numbers stay'
			compile(ours['without_magics'](code).lstrip(), 'x', 'exec')


def test_interrupted_await():
	"""The traceback shows where the code awaited. Before Python 3.11 it is that of the context."""
	def waits():
		raise OSError

	loop = asyncio.new_event_loop()
	future, cancelled = loop.create_future(), ValueError()
	try:
		waits()
	except OSError as e:
		cancelled.__context__ = e.with_traceback(e.__traceback__.tb_next)
	future.set_exception(cancelled)
	assert [frame.name for frame in traceback.extract_tb(ours['cancelled_at'](future))] == ['waits']
	loop.close()


def test_translate_anything():
	"""No text makes it fail, and no line is lost."""
	pick = random.Random(1)
	bits = ['!ls', '%cd', '%%time', '\n', '\\\n', '"""', "'", '"', '(', ')', '#', ' ', '\t', 'x', '=', '?', '\r\n', 'pip install', 'é', '\\', '{', ']']
	for _ in range(20000):
		code = ''.join(pick.choice(bits) for _ in range(pick.randrange(1, 12)))
		got = ours['translate'](code)
		if got is not None and '_caisson_cell' not in got:
			assert got.count('\n') == code.count('\n'), code
			assert ours['without_magics'](code) is not None, code
		elif got is not None:
			assert ours['without_magics'](code).endswith('pass\n'), code


def values(code):
	"""Whether the last statement's value is shown, and what it is."""
	tree, plain, _ = ours['parse'](code, '<string>')
	codes, space = ours['codes_of'](tree, code, '<string>'), {}
	eval(codes[0], space)
	return eval(codes[1], space) if len(codes) == 2 else 'none'


def test_last_value():
	for code, wanted in (('1', 1), ('1;', 'none'), ('1 ; # a', 'none'), ('1 # ;', 1), ('x = 1', 'none'), ('(\n1\n)', 1), ('(1);', 'none'),
	                     ('x = 2\nx\n\n', 2), ('if 1:\n 2', 'none'), ('"é"; 3', 3), ('"é" ;', 'none'), ('"a;"', 'a;'), ('', 'none'), ('x=1\r\nx\r\n', 1)):
		assert values(code) == wanted, (code, values(code))


def test_errors_show_the_line():
	for code, line, text in (('!ls\nx = = 1', 2, 'x = = 1'), ('x\nreturn 1', 2, 'return 1'), ('%a\n(\n', 2, '('), ('!ls\n!pwd (\n )x = 1', 3, ' )x = 1')):
		try:
			values(code)
		except SyntaxError as e:
			assert (e.lineno, e.text.rstrip('\n')) == (line, text), (code, e.lineno, e.text)
		else:
			raise AssertionError(code)


def frames(*names):
	files = {'u': '<string>', 'p': '/usr/lib/python3/dist-packages/pandas/a.py', 'c': 'pandas/_libs/x.pyx', 's': os.__file__}
	return [traceback.FrameSummary(files[n], i + 1, 'f%d' % i, lookup_line=False, line='') for i, n in enumerate(names)]


def test_fold():
	def shown(names, brief=False):
		lines, folded = ours['fold'](frames(*names), lambda group: ['%s' % f.name for f in group], brief)
		return ' '.join('[%s]' % line.split()[1] if '...' in line else line for line in lines), folded
	assert shown('up') == ('f0 f1', False)
	assert shown('upp') == ('f0 f1 f2', False)
	assert shown('uppps') == ('f0 f1 [2] f4', True)
	assert shown('upcccuppp') == ('f0 f1 [2] f4 f5 f6 [1] f8', True)
	assert shown('upppspu', True) == ('f0 [5] f6', True)
	assert shown('u' * 20)[1] is False
	assert shown('u' * 50) == (' '.join('f%d' % i for i in range(10)) + ' [30] ' + ' '.join('f%d' % i for i in range(40, 50)), True)


LIBRARY = """def made(errors):
	cause = None
	for error in errors:
		try:
			raise error from cause
		except Exception as e:
			cause = e
	return cause
"""


def chain(*errors):
	"""What folded_text() shows of errors that a library has raised, each from the one before, and the program the last one."""
	scope = {}
	exec(compile(LIBRARY, '/usr/lib/python3/dist-packages/net/a.py', 'exec'), scope)
	try:
		raise errors[-1] from scope['made'](errors[:-1])
	except Exception as e:
		return ours['folded_text'](type(e), e, e.__traceback__)


def test_chain():
	"""What a later error repeats is not shown; what it does not say is."""
	text, whole = chain(OSError('name not known'), ValueError('no such host (name not known)'), RuntimeError('failed: no such host (name not known)'))
	assert text.startswith('Traceback') and text.count('name not known') == 1 and whole.count('name not known') == 3, text
	text, _ = chain(OSError('name not known'), ValueError('no such host'), RuntimeError('failed: no such host'))
	assert text.startswith('OSError: name not known\n') and 'ValueError: no such host\n' in text, text
	text, _ = chain(OSError('a'), RuntimeError('failed: a'))
	assert text.startswith('OSError: a\n'), text


def test_advice():
	with tempfile.TemporaryDirectory() as folder:
		ours['WORKSPACE'] = folder
		missing = FileNotFoundError(2, 'No such file', '/srv/none/Salse.csv')
		assert ours['advice_for'](missing, None) == 'the folder /srv/none does not exist. There are no files in %s.' % folder
		assert ours['advice_for'](FileNotFoundError(2, 'No such file', folder + '/out/a'), None).startswith('the folder %s/out does not exist: os.makedirs() makes one. ' % folder)
		os.mkdir(folder + '/in')
		for name in 'sales.csv', 'in/other.txt', '.hidden':
			open('%s/%s' % (folder, name), 'w').close()
		assert ours['advice_for'](missing, None) == '%s/sales.csv may be meant. %s has: sales.csv, in/other.txt.' % (folder, folder)
	for data, text in ((b'%PDF-1.7', 'a PDF'), (b'PK\x03\x04....xl/workbook', 'an Excel workbook'), (b'PK\x03\x04', 'a ZIP archive'), (b'PAR1', 'a Parquet file'),
	                   (b'\xe9t\xe9', 'not UTF-8'), (b'\xff\x00\x01', 'open it with "rb"'), (b'\xff\xfea\0', 'UTF-16')):
		assert text in ours['advice_for'](UnicodeDecodeError('utf-8', data, 0, 1, 'bad'), None), text
	assert ours['advice_for'](ValueError('x'), None) == ''
	for wanted, near in (('jsno', False), ('decimla', True), ('decima', True), ('decimall', True), ('decemal', True), ('dceimla', False), ('nosuchmodule', False), ('x.y', False)):
		assert (' may be meant' in ours['advice_for'](ModuleNotFoundError('No module', name=wanted), None)) == near, wanted


def records(fd):
	"""What engine/front/inside/records.c and sandbox/shown.c read: [(kind, {name: data, or the size of what was left out})]."""
	data = os.pread(fd, 1 << 28, ours['RECORDS_AT'])
	found = []
	while data:
		magic, kind, n = struct.unpack('=4sII', data[:12])
		body, data = data[12:12 + n], data[12 + n:]
		assert magic == b'CRR1' and len(body) == n
		parts = {}
		while body:
			name_len, left_out, size = struct.unpack('=HHQ', body[:12])
			name, body = body[12:12 + name_len].decode(), body[12 + name_len:]
			parts[name], body = (size, body) if left_out else (body[:size], body[size:])
		found.append((kind, parts))
	return found


def shown(code):
	"""Runs CODE as a cell; returns stdout, the records, and the text of the value."""
	out, before, fd = io.StringIO(), (sys.stdout, sys.__stdout__), os.memfd_create('result')
	ours['begin_rich'](fd)
	sys.stdout = sys.__stdout__ = out
	try:
		tree, _, _ = ours['parse'](code, '<string>')
		space = {'__name__': '__main__'}
		for i, part in enumerate(ours['codes_of'](tree, code, '<string>')):
			value = eval(part, space)
			if i:
				ours['result'](value, fd)
	finally:
		sys.stdout, sys.__stdout__ = before
	found = records(fd)
	text = os.pread(fd, ours['RECORDS_AT'], 0).rstrip(b'\0').decode()
	os.close(fd)
	return out.getvalue().replace(ours['BEGIN'], '[').replace(ours['END'], ']'), found, text


def test_display():
	out, found, text = shown('print("a")\ndisplay({1: 2}, "s")\nprint("b")\n7')
	assert (out, text) == ("a\n[{1: 2}\n]['s'\n]b\n", '7')
	assert found == [(1, {'text/plain': b'{1: 2}'}), (1, {'text/plain': b"'s'"})]
	out, found, text = shown('from IPython.display import HTML, Image, JSON, SVG, Markdown\ndisplay(HTML("<b>"), Image(b"\\x89PNG"), JSON([1]))\nMarkdown("*x*")')
	assert [sorted(parts)[-1] for kind, parts in found] == ['text/plain', 'text/plain', 'text/plain', 'text/markdown'], found
	assert found[0][1]['text/html'] == b'<b>'
	assert found[1][1]['image/png'] == b'\x89PNG' and found[2][1]['application/json'] == b'[1]' and found[3] == (2, {'text/markdown': b'*x*'})
	assert text == '<IPython.core.display.Markdown object>'
	out, found, text = shown('class H:\n    def _repr_html_(self): return "<i>"\n    def _repr_png_(self): raise ValueError\n    def __repr__(self): return "h"\nH()')
	assert (found, text) == ([(2, {'text/html': b'<i>'})], 'h')
	assert shown('(1, 2)') == ('', [], '(1, 2)')
	out, found, text = shown('import contextlib, io\nwith contextlib.redirect_stdout(io.StringIO()) as s: display(5)\ns.getvalue()')
	assert (out, text, len(found)) == ('[]', repr('5\n'), 1)


def test_display_bounds():
	out, found, text = shown('from IPython.display import HTML\ndisplay(HTML("x" * 100_000_000))')
	assert found == [(1, {'text/plain': b'<IPython.core.display.HTML object>', 'text/html': 100000000})]
	out, found, text = shown('from IPython.display import HTML\nfor i in range(50): display(HTML("x" * 1_000_000))')
	assert sum(len(p['text/html']) for kind, p in found if isinstance(p['text/html'], bytes)) <= ours['RECORDS_BYTES']
	assert found[-1][1]['text/html'] == 1000000
	out, found, text = shown('for i in range(3000): display(i)')
	assert len(found) == ours['RECORDS_N'] and out.count('\n') == 3000


def test_shell_object():
	out, found, text = shown('h = display(1, display_id=True)\nh.update(2)\nget_ipython().clear_output(wait=True)\nget_ipython().ev("1 + 1")')
	assert [kind for kind, parts in found] == [1, 3, 4] and found[0][1]['id'] == found[1][1]['id'] and found[2][1] == {'wait': b'1'}
	assert text == '2'
	import IPython
	if IPython.__version__ == '9.0.0':
		assert callable(IPython.display.display) and IPython.get_ipython() is ours['get_ipython']()


for name, test in sorted(globals().items()):
	if name.startswith('test_'):
		test()
		print('ok', name)
