# SPDX-License-Identifier: Apache-2.0
"""What applications do with E2B's SDK for Python: `jobs.py NAME` does one job, `jobs.py` names them all. Where to find the server
is in the environment, as for any application. An older SDK lacks what `since` says."""
import asyncio
import http.client
import inspect
import os
import sys
import time
import urllib.request

import e2b
import networks
import snapshots
import templates
import watches
from e2b import AsyncSandbox, Sandbox

try:
	from e2b_code_interpreter import AsyncSandbox as AsyncInterpreter, Sandbox as Interpreter
except ImportError:
	AsyncInterpreter = Interpreter = None

VERSION = tuple(map(int, __import__('importlib.metadata').metadata.version('e2b').split('.')))
JOBS = {}


def job(kind=Sandbox, since=(0,)):
	def add(do):
		if kind is not None and VERSION >= since:
			JOBS[do.__name__] = kind, do
		return do
	return add


def raises(kind, do, *args, **more):
	try:
		do(*args, **more)
	except kind as error:
		return error
	raise AssertionError('%s was not raised' % kind.__name__)


# Sandboxes --------------------------------------------------------------------------------------------


@job()
def find_and_extend(s):
	info = s.get_info()
	assert info.sandbox_id == s.sandbox_id and info.metadata == {'job': 'a b&c=d/é'}, info
	found = Sandbox.list(query=e2b.SandboxQuery(metadata={'job': 'a b&c=d/é'})).next_items()
	assert s.sandbox_id in [one.sandbox_id for one in found], found
	assert s.sandbox_id not in [one.sandbox_id for one in Sandbox.list(query=e2b.SandboxQuery(metadata={'job': 'other'})).next_items()]
	s.set_timeout(500)
	later = s.get_info().end_at
	assert (later - info.end_at).total_seconds() > 300, (info.end_at, later)
	again = Sandbox.connect(s.sandbox_id)
	assert again.is_running() and again.commands.run('echo $FROM').stdout == 'create\n'
	assert s.get_info().end_at == later  # connecting never shortens


@job()
def pages_of_a_list(s):
	others = [Sandbox.create(timeout=60, metadata={'page': s.sandbox_id}) for _ in range(3)]
	pages, seen = Sandbox.list(query=e2b.SandboxQuery(metadata={'page': s.sandbox_id}), limit=2), []
	while pages.has_next:
		items = pages.next_items()
		assert len(items) <= 2
		seen += [one.sandbox_id for one in items]
	for one in others:
		one.kill()
	assert seen == [one.sandbox_id for one in reversed(others)], (seen, others)


@job()
def end_of_life(s):
	assert s.kill() and not s.is_running() and not s.kill()
	error = raises(e2b.TimeoutException, s.commands.run, 'true')
	assert 'not found' in str(error), error
	raises(e2b.NotFoundException, Sandbox.connect, s.sandbox_id)
	short = Sandbox.create(timeout=1)
	until = time.monotonic() + 20
	while short.is_running():
		assert time.monotonic() < until
		time.sleep(0.2)


@job(since=(2, 40))
def killed_under_a_command(s):
	handle = s.commands.run('echo here; sleep 60', background=True)
	assert next(iter(handle)) is not None
	Sandbox.kill(s.sandbox_id)
	raises(e2b.TimeoutException, handle.wait)


@job()
def what_is_not_offered_says_so(s):
	error = raises(e2b.SandboxException, Sandbox.create, 'no-such-template')
	assert 'no-such-template' in str(error), error
	error = raises(e2b.SandboxException, s.commands.run, 'true', user='root')
	assert 'root' in str(error), error


@job()
def no_network(s):
	closed = Sandbox.create(timeout=60, allow_internet_access=False)
	assert closed.get_info().allow_internet_access is False if VERSION >= (2, 30) else True
	assert closed.commands.run('echo in').stdout == 'in\n'
	closed.kill()


def visit(sandbox, port, **headers):
	"""What a browser gets at the name of a port. That leads to this machine, whatever its resolver says of it."""
	host = sandbox.get_host(port)
	visitor = http.client.HTTPConnection('127.0.0.1', int(host.rsplit(':', 1)[1]), timeout=60)
	visitor.request('GET', '/page', headers={'Host': host, **headers})
	answer = visitor.getresponse()
	return answer.status, answer.read().decode()


def serve(sandbox):
	sandbox.files.write('page', 'hello')
	sandbox.commands.run('python3 -m http.server 8000', background=True)
	until = time.monotonic() + 20
	while sandbox.commands.run('python3 -c "import socket; socket.create_connection((\'127.0.0.1\', 8000))"; echo $?').stdout[-2:] != '0\n':
		assert time.monotonic() < until


@job()
def ports_for_everybody(s):
	serve(s)
	assert visit(s, 8000) == (200, 'hello')
	status, body = visit(s, 8001)
	assert status == 502 and 'port is not open' in body, body
	s.kill()
	status, body = visit(s, 8000)
	assert status == 502 and 'was not found' in body, body


def ports_by_name(s):
	"""Where names lead to the server and it has a certificate for them, nothing is special about a port."""
	serve(s)
	with urllib.request.urlopen('https://%s/page' % s.get_host(8000), timeout=60) as answer:
		assert answer.read() == b'hello'


@job(since=(2, 24))
def ports_with_a_token(s):
	closed = Sandbox.create(timeout=60, network={'allow_public_traffic': False})
	serve(closed)
	assert visit(closed, 8000)[0] == 403
	assert visit(closed, 8000, **{'e2b-traffic-access-token': closed.traffic_access_token}) == (200, 'hello')
	closed.kill()


@job(since=(2, 50))
def a_visitor_wakes_a_sandbox(s):
	other = Sandbox.create(timeout=60, lifecycle={'on_timeout': 'pause', 'auto_resume': True})
	serve(other)
	other.pause()
	assert other.get_info().state == e2b.SandboxState.PAUSED
	assert visit(other, 8000) == (200, 'hello')
	assert other.get_info().state == e2b.SandboxState.RUNNING
	other.kill()


@job()
def figures(s):
	until = time.monotonic() + 20
	while not (found := s.get_metrics()):
		assert time.monotonic() < until
	assert found[0].mem_total > 0 and found[0].cpu_count >= 1, found


@job(Interpreter, since=(2, 50))
def pause_and_go_on(s):
	s.run_code('x = 5')
	s.commands.run('(while :; do echo >> /tmp/ticks; sleep 0.02; done) & setsid sh -c "while :; do echo >> /tmp/more; sleep 0.02; done"', background=True, timeout=1)
	open_one = s.commands.run('sleep 100', background=True)
	before = s.get_info().end_at
	assert s.pause() is not False and not s.is_running()
	raises(e2b.SandboxException, open_one.wait)
	raises(e2b.TimeoutException, s.commands.run, 'true')
	assert s.get_info().state == e2b.SandboxState.PAUSED
	time.sleep(1.5)
	again = Interpreter.connect(s.sandbox_id, timeout=300)
	assert (again.get_info().end_at - before).total_seconds() > 60
	first = again.commands.run('sleep 0.3; wc -l < /tmp/ticks; wc -l < /tmp/more').stdout.split()
	assert all(int(n) < 60 for n in first), first  # they rested, and the second of their time limit did not pass
	assert again.run_code('x').text == '5'
	assert open_one.pid in [p.pid for p in again.commands.list()]


@job(since=(2, 50))
def pause_at_the_end_of_its_time(s):
	other = Sandbox.create(timeout=1, lifecycle={'on_timeout': 'pause', 'auto_resume': True})
	other.files.write('kept', 'yes')
	until = time.monotonic() + 20
	while other.get_info().state != e2b.SandboxState.PAUSED:
		assert time.monotonic() < until
		time.sleep(0.1)
	assert other.files.read('kept') == 'yes' and other.get_info().state == e2b.SandboxState.RUNNING
	assert other.get_info().lifecycle['on_timeout'].value == 'pause'
	other.kill()


# Commands ---------------------------------------------------------------------------------------------


@job()
def commands(s):
	r = s.commands.run('echo out; echo err >&2; echo $FROM $MORE; pwd', envs={'MORE': 'call'})
	assert (r.stdout, r.stderr, r.exit_code) == ('out\ncreate call\n/home/user\n', 'err\n', 0), r
	assert s.commands.run('pwd', cwd='/tmp').stdout == '/tmp\n'
	error = raises(e2b.CommandExitException, s.commands.run, 'echo why >&2; exit 7')
	assert (error.exit_code, error.stderr) == (7, 'why\n'), error
	raises(e2b.InvalidArgumentException, s.commands.run, 'true', cwd='/no/such')
	raises(e2b.TimeoutException, s.commands.run, 'sleep 20', timeout=1)


@job()
def output_as_it_comes(s):
	seen = []
	r = s.commands.run('for i in 1 2 3; do echo $i; sleep 0.3; done', on_stdout=lambda data: seen.append((data, time.monotonic())))
	assert r.stdout == '1\n2\n3\n' and seen[-1][1] - seen[0][1] > 0.4, seen
	r = s.commands.run('head -c 30000000 /dev/zero | tr "\\0" x; echo', timeout=120)
	assert len(r.stdout) == 30000001


@job(since=(2, 40))
def characters_in_pieces(s):
	assert s.commands.run(r"printf '\xe2\x82'; sleep 0.2; printf '\xac\xff'").stdout == '€\ufffd'


@job()
def in_the_background(s):
	one, two = s.commands.run('sleep 50', background=True), s.commands.run('sleep 60', background=True)
	listed = {p.pid: p.args[-1] for p in s.commands.list()}
	assert listed[one.pid] == 'sleep 50' and listed[two.pid] == 'sleep 60', listed
	assert one.kill() and s.commands.kill(two.pid)
	until = time.monotonic() + 10
	while s.commands.list():
		assert time.monotonic() < until
	assert not s.commands.kill(two.pid)
	raises(e2b.CommandExitException, two.wait)
	lasting = s.commands.run('sleep 1; echo late', background=True)
	lasting.disconnect()
	assert s.commands.connect(lasting.pid).wait().stdout == 'late\n'


@job()
def input_of_a_command(s):
	handle = s.commands.run('cat', background=True, stdin=True)
	s.commands.send_stdin(handle.pid, 'hello\n')
	assert next(iter(handle))[0] == 'hello\n'
	s.commands.kill(handle.pid)
	assert s.commands.run('cat; echo end').stdout == 'end\n'


@job(since=(2, 30))
def end_of_input(s):
	handle = s.commands.run('wc -c', background=True, stdin=True)
	s.commands.send_stdin(handle.pid, 'x' * 100000)
	s.commands.close_stdin(handle.pid)
	assert handle.wait().stdout.strip() == '100000'


@job()
def a_terminal(s):
	seen = []
	handle = s.pty.create(size=e2b.PtySize(rows=31, cols=92), timeout=30)
	s.pty.send_stdin(handle.pid, b'stty size; echo $TERM; exit\n')
	handle.wait(on_pty=lambda data: seen.append(data))
	assert b'31 92' in b''.join(seen) and b'xterm' in b''.join(seen), seen


@job()
def a_terminal_has_its_size_before_its_input(s):
	for cols in range(100, 110):
		terminal = s.pty.create(e2b.PtySize(cols=80, rows=24))
		s.pty.resize(terminal.pid, e2b.PtySize(cols=cols, rows=25))
		s.pty.send_stdin(terminal.pid, b'stty size; exit\n')
		shown = []
		terminal.wait(on_pty=lambda data: shown.append(data))
		assert b'25 %d' % cols in b''.join(shown), shown


# Files ------------------------------------------------------------------------------------------------


@job()
def write_and_read(s):
	assert s.files.write('a.txt', 'héllo').path == '/home/user/a.txt'
	assert s.files.read('a.txt') == s.files.read('/home/user/a.txt') == s.files.read('~/a.txt') == 'héllo'
	data = bytes(range(256)) * 5000
	s.files.write('/tmp/deep/er/b.bin', data)
	assert bytes(s.files.read('/tmp/deep/er/b.bin', format='bytes')) == data
	assert b''.join(s.files.read('/tmp/deep/er/b.bin', format='stream')) == data
	assert [one.path for one in s.files.write_files([{'path': 'm/1', 'data': '1'}, {'path': '/tmp/2', 'data': b'2'}])] == ['/home/user/m/1', '/tmp/2']
	s.files.write('a.txt', 'new')
	assert s.commands.run('cat ~/a.txt m/1 /tmp/2').stdout == 'new12'
	raises(e2b.NotFoundException, s.files.read, 'nope')
	raises(e2b.InvalidArgumentException, s.files.read, 'm')


@job()
def look_and_change(s):
	s.files.write('d/one.txt', '1234')
	s.files.make_dir('d/sub/deep')
	assert s.files.make_dir('d/sub') is False
	assert [(one.name, one.type.value) for one in s.files.list('d')] == [('one.txt', 'file'), ('sub', 'dir')]
	assert [one.path for one in s.files.list('d', depth=2)] == ['/home/user/d/one.txt', '/home/user/d/sub', '/home/user/d/sub/deep']
	info = s.files.get_info('d/one.txt')
	assert (info.size, info.mode, info.permissions, info.owner, info.group) == (4, 0o644, '-rw-r--r--', 'user', 'user'), info
	assert s.files.rename('d/one.txt', 'd/sub/two.txt').path == '/home/user/d/sub/two.txt'
	assert not s.files.exists('d/one.txt') and s.files.exists('d/sub/two.txt')
	s.commands.run('ln -s sub/two.txt d/link')
	info = s.files.get_info('d/link')
	assert (info.type.value, info.symlink_target) == ('file', '/home/user/d/sub/two.txt'), info
	s.files.remove('d')
	assert not s.files.exists('d')
	s.files.remove('d')
	raises(e2b.NotFoundException, s.files.list, 'd')
	raises(e2b.NotFoundException, s.files.get_info, 'd')
	raises(e2b.InvalidArgumentException, s.files.list, '/etc/passwd')
	assert 'passwd' in [one.name for one in s.files.list('/etc')]


@job(since=(2, 60))
def notes_about_files(s):
	note = {'author': 'mish', 'Purpose': 'an upload'}
	kept = {'author': 'mish', 'purpose': 'an upload'}
	s.files.write('n/a.txt', 'one', metadata=note)
	info = s.files.write('n/b.txt', 'two', metadata=note, use_octet_stream=True)
	assert info.metadata == kept and s.files.get_info('n/b.txt').metadata == kept, (info, s.files.get_info('n/b.txt'))
	assert [one.metadata for one in s.files.write_files([{'path': 'n/c', 'data': '1'}, {'path': 'n/d', 'data': '2'}], metadata={'k': 'v'})] == [{'k': 'v'}] * 2
	s.files.write('n/none', '')
	assert [(one.name, one.metadata) for one in s.files.list('n')] == [('a.txt', kept), ('b.txt', kept), ('c', {'k': 'v'}), ('d', {'k': 'v'}), ('none', None)]
	assert s.files.rename('n/a.txt', 'n/e.txt').metadata == kept
	assert s.files.write('n/b.txt', 'new').metadata is None and s.files.get_info('n/b.txt').metadata is None
	s.commands.run('python3 -c "import os; os.setxattr(\'n/none\', \'user.e2b.by\', \'é\'.encode()); os.setxattr(\'n/none\', \'user.other\', b\'x\')"')
	assert s.files.get_info('n/none').metadata == {'by': 'é'}
	assert s.commands.run('python3 -c "import os; print(os.getxattr(\'n/c\', \'user.e2b.k\'))"').stdout == "b'v'\n"


@job(since=(2, 60))
def compressed_and_streamed(s):
	import io
	text = 'a line of text\n' * 300000
	s.files.write('big.txt', text, gzip=True)
	assert s.files.read('big.txt') == text == s.files.read('big.txt', gzip=True)
	s.files.write('stream.bin', io.BytesIO(b'x' * 3000000))
	assert s.files.get_info('stream.bin').size == 3000000
	s.files.write('empty', '', gzip=True)
	assert s.files.read('empty') == ''


@job()
def addresses_of_files(s):
	import urllib.error
	import urllib.request
	s.files.write('a b.txt', 'signed')
	assert urllib.request.urlopen(s.download_url('a b.txt')).read() == b'signed'
	old = raises(urllib.error.HTTPError, urllib.request.urlopen, s.download_url('a b.txt', use_signature_expiration=-10))
	assert (old.code, b'signature is already expired' in old.read()) == (401, True)
	assert raises(urllib.error.HTTPError, urllib.request.urlopen, s.download_url('a b.txt') + 'x').code == 401


# Code -------------------------------------------------------------------------------------------------


@job(Interpreter)
def cells(s):
	assert s.run_code('x = 41').text is None
	r = s.run_code('x += 1\nprint("é\\u2028", x)\nx')
	assert (r.text, r.logs.stdout) == ('42', ['é\u2028 42\n']), r
	r = s.run_code('import sys; print("e", file=sys.stderr)\n1 / 0')
	assert (r.error.name, r.error.value, r.logs.stderr) == ('ZeroDivisionError', 'division by zero', ['e\n']), r
	assert 'line 2' in r.error.traceback or '1 / 0' in r.error.traceback, r.error.traceback
	assert s.run_code('import os; os.getcwd(), os.environ["FROM"], os.environ.get("CELL")', envs={'CELL': 'one'}).text == \
		"('/home/user', 'create', 'one')"
	assert s.run_code('os.environ.get("CELL")').text is None
	assert s.run_code('!echo shell').logs.stdout == ['shell\n']
	assert s.run_code('import asyncio\nawait asyncio.sleep(0.01, "waited")').text == 'waited'
	assert ''.join(s.run_code('echo $HOME; echo $FROM', language='bash').logs.stdout) == '/home/user\ncreate\n'
	assert s.run_code('raise SystemExit').error is None


@job(Interpreter)
def rich_results(s):
	r = s.run_code('import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()\nprint("after")')
	assert r.results[0].png and r.logs.stdout == ['after\n'], r
	r = s.run_code('import pandas as pd\npd.DataFrame({"a": [1, 2], "b": ["x", "y"]})')
	assert r.results[0].data == {'a': [1, 2], 'b': ['x', 'y']} and '<table' in r.results[0].html and r.results[0].is_main_result, r
	r = s.run_code('from IPython.display import HTML, Markdown, display\ndisplay(HTML("<b>x</b>"))\ndisplay({"text/latex": "$y$"}, raw=True)\nMarkdown("# z")')
	assert [one.html or one.latex or one.markdown for one in r.results] == ['<b>x</b>', '$y$', '# z'], r.results


@job(Interpreter)
def charts(s):
	def chart(code, left_out=False):
		r = s.run_code('import matplotlib.pyplot as plt\n' + code)
		assert r.error is None and r.results[0].png and r.results[0].text.startswith('<Figure size'), r
		assert (r.results[0].chart is None) == left_out, r.results[0].chart
		return r.results[0].chart
	one = chart('plt.plot([1, 2], [3.5, 4], label="up")\nplt.plot([0, 1], [0, 1])\nplt.axhline(1)\nplt.title("T")\nplt.xlabel("time (ms)")\nplt.yscale("log")')
	assert (one.type, one.title, one.x_label, one.x_unit, one.y_label, one.x_scale, one.y_scale) == ('line', 'T', 'time (ms)', 'ms', None, 'linear', 'log'), one
	assert [(line.label, line.points) for line in one.elements] == [('up', [(1.0, 3.5), (2.0, 4.0)]), ('Line 1', [(0.0, 0.0), (1.0, 1.0)])], one.elements
	assert all(isinstance(at, float) for at in one.x_ticks) and len(one.x_tick_labels) == len(one.x_ticks)
	one = chart('plt.plot(["a", "b"], [1, 2], "o")\nplt.scatter(["a"], [9], label="nine")')
	assert (one.type, one.x_scale, one.x_ticks) == ('scatter', 'categorical', ['a', 'b']), one
	assert [(e.label, e.points) for e in one.elements] == [('nine', [('a', 9.0)]), ('Dataset 1', [('a', 1.0), ('b', 2.0)])], one.elements
	one = chart('import datetime\nplt.plot([datetime.date(2026, 1, 2)], [1])')
	assert (one.x_scale, one.elements[0].points[0][0][:10]) == ('datetime', '2026-01-02'), one
	one = chart('plt.bar(["x", "y"], [1, 2.5])\nplt.ylabel("pieces")\nplt.show()')
	assert (one.type, one.y_label, [(bar.label, bar.value) for bar in one.elements]) == ('bar', 'pieces', [('x', 1.0), ('y', 2.5)]), one
	one = chart('plt.barh(["x", "y"], [1, 2.5])\nplt.xlabel("pieces")')
	assert (one.type, one.y_label, [(bar.label, bar.value) for bar in one.elements]) == ('bar', 'pieces', [('x', 1.0), ('y', 2.5)]), one
	one = chart('plt.pie([3, 1], labels=["most", "rest"], startangle=90)')
	assert (one.type, [(e.label, e.angle, e.radius) for e in one.elements]) == ('pie', [('most', 270.0, 1.0), ('rest', 90.0, 1.0)]), one
	for more in '', ', patch_artist=True', ', vert=False', ', notch=True':
		one = chart('import warnings\nwarnings.simplefilter("ignore")\nplt.boxplot([[1, 2, 3, 4, 5, 99], [6, 7, 8]], labels=["p", "q"]%s)' % more)
		assert (one.type, [e.label for e in one.elements]) == ('box_and_whisker', ['p', 'q']), (more, one)
		e = one.elements[0]
		assert (e.min, e.first_quartile, e.median, e.third_quartile, e.max, e.outliers) == (1.0, 2.25, 3.5, 4.75, 5.0, [99.0]), (more, vars(e))
	one = chart('fig, axes = plt.subplots(1, 2)\nfig.suptitle("both")\naxes[0].plot([1])\naxes[1].bar(["b"], [1])')
	assert (one.type, one.title, [e.type for e in one.elements]) == ('superchart', 'both', ['line', 'bar']), one
	one = chart('plt.gca().add_patch(plt.Circle((0, 0), 1))')
	assert (one.type, one.elements) == ('unknown', []), one
	one = chart('plt.plot([1, float("nan")])')
	assert one.elements[0].points == [(0.0, 1.0), (1.0, None)], one.elements
	chart('plt.plot(range(20000))', left_out=True)
	one = chart('plt.subplots(1, 2)[1][0].bar(["b"], [1])')
	assert [(e.type, e.elements == []) for e in one.elements] == [('bar', False), ('line', True)], one.elements


@job(Interpreter)
def figures_of_a_cell_that_fails(s):
	r = s.run_code('import datetime, matplotlib.pyplot as plt\nplt.figure()\nplt.title("half")\nplt.plot([datetime.date(2026, 1, 2)], [1, 2])')
	assert r.error.name == 'ValueError' and [one.formats() for one in r.results] == [['text', 'png', 'chart']], r
	one = r.results[0].chart
	assert (one.type, one.title, one.x_scale, one.y_scale, one.elements) == ('line', 'half', 'datetime', 'linear', []), one
	assert s.run_code('plt.get_fignums()').text == '[]' and s.run_code('1 / 0').results == []


@job(Interpreter)
def pictures(s):
	r = s.run_code('from PIL import Image\nred = Image.new("RGB", (8, 8), "red")\nred.show()\nprint("shown")')
	assert [one.formats() for one in r.results] == [['png']] and r.logs.stdout == ['shown\n'], r
	assert 'png' in s.run_code('red').results[0].formats()
	r = s.run_code('red.save("red.png")\nprint("saved")')
	assert [one.formats() for one in r.results] == [['png']] and s.files.exists('red.png'), r
	assert s.run_code('import io\nred.save(io.BytesIO(), "png")').results == []
	r = s.run_code('red.save("no/such/folder.png")')
	assert r.error.name == 'FileNotFoundError' and 'caisson' not in r.error.traceback, r.error.traceback


@job(Interpreter)
def contexts(s):
	one = s.create_code_context(cwd='/tmp')
	assert [c.cwd for c in s.list_code_contexts()][-1] == '/tmp'
	assert s.run_code('y = 1\nimport os; os.getcwd()', context=one).text == '/tmp'
	assert s.run_code('y').error.name == 'NameError'
	assert s.run_code('y', context=one).text == '1'
	s.restart_code_context(one)
	assert s.run_code('y', context=one).error.name == 'NameError'
	new = s.create_code_context(cwd='/home/user/made/for/it')
	assert s.run_code('import os; os.getcwd()', context=new).text == '/home/user/made/for/it'
	s.remove_code_context(new)
	raises(e2b.SandboxException, s.create_code_context, cwd='/usr/no/such')
	s.remove_code_context(one)
	assert [c.language for c in s.list_code_contexts()] == ['python', 'javascript']


@job(Interpreter)
def javascript(s):
	out = []
	r = s.run_code('const a = [1, 2]; console.log("hello"); a.map((x) => x * 2)', language='js', on_stdout=lambda m: out.append(m.line))
	assert (r.text, r.logs.stdout, out) == ('[ 2, 4 ]', ['hello\n'], ['hello\n']), r
	assert s.run_code('const b: number = await Promise.resolve(a.length); b', language='typescript').text == '2'
	assert s.run_code('import { readFileSync } from "fs"; typeof readFileSync', language='javascript').text == 'function'
	r = s.run_code('function f() { throw new RangeError("far") }\nf()', language='js')
	assert (r.error.name, r.error.value) == ('RangeError', 'far') and 'at f (<cell' in r.error.traceback, r.error
	assert s.run_code('a', language='python').error.name == 'NameError'
	one = s.create_code_context(language='javascript')
	assert (one.language, s.run_code('typeof a', context=one).text) == ('javascript', 'undefined')
	s.remove_code_context(one)
	r = s.run_code('({ toHtml: () => "<b>x</b>" })', language='js')
	assert r.results[0].html == '<b>x</b>', r


@job(Interpreter)
def a_cell_that_never_ends(s):
	s.run_code('kept = "yes"')
	raises(e2b.TimeoutException, s.run_code, 'while True: pass', timeout=1)
	began = time.monotonic()
	assert s.run_code('kept').text == 'yes' and time.monotonic() - began < 10


@job(Interpreter, since=(2, 60))
def killed_under_a_cell(s):
	import threading
	began = threading.Event()
	def kill():
		began.wait(60)
		Sandbox.kill(s.sandbox_id)
	killer = threading.Thread(target=kill)
	killer.start()
	error = raises(e2b.TimeoutException, s.run_code, 'import time\nprint("here", flush=True)\ntime.sleep(60)', on_stdout=lambda line: began.set())
	killer.join()
	assert 'sandbox was killed' in str(error), error


@job(Interpreter)
def much_output(s):
	seen = []
	r = s.run_code('for i in range(300000): print("line", i)', on_stdout=lambda m: seen.append(len(m.line)))
	assert sum(seen) == sum(map(len, r.logs.stdout)) == sum(len('line %d\n' % i) for i in range(300000))


# Asynchronous -----------------------------------------------------------------------------------------


@job(AsyncSandbox)
async def many_at_once(s):
	async def one(i):
		await s.files.write('n/%d' % i, str(i))
		return (await s.commands.run('cat n/%d; sleep 0.3' % i)).stdout
	assert await asyncio.gather(*map(one, range(20))) == [str(i) for i in range(20)]
	assert len(await s.files.list('n')) == 20


@job(AsyncInterpreter)
async def cells_wait_for_each_other(s):
	await s.run_code('n = 0')
	await asyncio.gather(*[s.run_code('n += 1') for _ in range(10)])
	assert (await s.run_code('n')).text == '10'


networks.add(job, raises)
snapshots.add(job, raises)
templates.add(job)
watches.add(job, raises)


def create(kind):
	return kind.create(timeout=200, metadata={'job': 'a b&c=d/é'}, envs={'FROM': 'create'})


async def run_async(kind, do):
	s = await create(kind)
	try:
		await do(s)
	finally:
		await s.kill()


# What a server does by its name alone; the others are asked the same by its address.
NAMED = ('find_and_extend', 'commands', 'input_of_a_command', 'write_and_read', 'addresses_of_files', 'watch_with_entries', 'cells', 'many_at_once', 'ports_by_name')


def main(name=None):
	if 'E2B_DOMAIN' in os.environ:
		JOBS['ports_by_name'] = Sandbox, ports_by_name
		for other in set(JOBS) - set(NAMED):
			del JOBS[other]
	if name is None:
		print('\n'.join(JOBS))
		return
	kind, do = JOBS[name]
	if inspect.iscoroutinefunction(do):
		asyncio.run(run_async(kind, do))
		return
	s = create(kind)
	try:
		do(s)
	finally:
		s.kill()


main(*sys.argv[1:])
