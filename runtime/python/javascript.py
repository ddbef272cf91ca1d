# SPDX-License-Identifier: Apache-2.0
"""Cells of JavaScript and TypeScript: a Node process beside the interpreter, a child of the session like any other, executes them. It is
started by the first such cell, keeps their variables, and ends with the session. In a run without a session it executes one
program and ends. runtime/node has its side.

It writes what it prints to our standard output and error itself. Over pipes come what it shows, and how a cell ended. The code
of the user can write to these pipes, so nothing is believed: each message has a word that was made for its cell, and a line that is no such message ends the process.

Runs in the dictionary of boot.py, when it is needed."""
import os

KERNEL = '/usr/local/lib/caisson/node/kernel.js'
LANGUAGES = {'javascript': False, 'js': False, 'node': False, 'typescript': True, 'ts': True}  # is it TypeScript?
REPLY_MAX = 32 << 20  # bytes of a line; kernel.js writes at most 4 Mi characters
REACT_S = 1.8  # so long a cell may take to react to an interrupt; init interrupts again after 1 s, and kills after 3
SIGNAL_S = 0.2  # of these, to react to the signal alone
HEAP_SHARE = 0.75  # of the memory limit
NODE_MISSING = 127  # exit status, as of a shell that does not find a command
NO_NODE = ('JavaScript and TypeScript need Node, and the image of this sandbox has no program `node`. '
	'Make the sandbox of an image that has it, such as science or node.')

the_node = None  # the process of this session
node_lost = ''  # why an earlier one has ended, until a cell has told it


class ForeignError(Exception):
	"""An error of another language than Python: its name, its message, and the text to show."""

	def __init__(self, name, message, text):
		Exception.__init__(self, message)
		self.name, self.text = name, text


class ForeignInterrupt(KeyboardInterrupt):
	name, text = 'KeyboardInterrupt', 'KeyboardInterrupt: the cell was interrupted\n'


class ForeignValue:
	"""The value of the last expression of a cell."""

	def __init__(self, text, data):
		self.text, self.data = text, data

	def __repr__(self):
		return self.text

	def _repr_mimebundle_(self, include=None, exclude=None):
		return self.data


def own_error(name, message):
	return ForeignError(name, message, '%s: %s\n' % (name, message))


def identity(fd):
	try:
		found = os.fstat(fd)
		return found.st_dev, found.st_ino
	except OSError:
		return None


def free_port():
	"""A port for the inspector, which begins to listen in terminate() alone."""
	import socket
	with socket.socket() as found:
		found.bind(('127.0.0.1', 0))
		return found.getsockname()[1]


def heap_limit():
	"""Beyond it Node ends by itself, and the session stays. limits.py knows the limit in the same way."""
	changed = os.environ.get('CAISSON_MEMORY', '')
	try:
		shm = os.statvfs('/dev/shm')
		limit = int(changed) if changed.isdigit() else 2 * shm.f_blocks * shm.f_frsize
	except OSError:
		return []
	return ['--max-old-space-size=%d' % max(16, int(limit * HEAP_SHARE) >> 20)] if limit > 0 else []


class NodeProcess:
	def __init__(self):
		import shutil
		import subprocess
		program = shutil.which('node') or shutil.which('nodejs')
		if program is None:
			raise own_error('NodeMissing', NO_NODE)
		self.owner, self.unread, self.environment, self.forged, self.word = os.getpid(), b'', dict(os.environ), False, ''
		ours, theirs = [], []
		try:
			for writes in True, False, True:  # commands, replies, acknowledgements
				reader, writer = os.pipe()
				ours.append(writer if writes else reader)
				theirs.append(reader if writes else writer)
			self.commands, self.replies, self.acks = ours
			self.pipes = [(fd, identity(fd)) for fd in ours]
			# When terminate() has ended a callback, Node's check of its own stack of callbacks would end Node.
			self.port = free_port()
			inspector = ['--inspect-port=127.0.0.1:%d' % self.port, '--inspect-publish-uid=http', '--no-force-async-hooks-checks']
			self.process = subprocess.Popen([program, '--expose-internals'] + inspector + heap_limit() + [KERNEL] + [str(fd) for fd in theirs],
				stdin=subprocess.DEVNULL if has_history else None, pass_fds=theirs, start_new_session=True)
		except BaseException:
			for fd in ours:
				os.close(fd)
			raise
		finally:
			for fd in theirs:
				os.close(fd)

	def close(self):
		"""Ends it. Its descriptors may be closed already, or dead ends after a crash of the session."""
		global the_node
		if the_node is self:
			the_node = None
		if os.getpid() != self.owner:
			return
		try:
			os.killpg(self.process.pid, 9)
		except OSError:
			pass
		self.process.wait()
		for fd, pipe in self.pipes:
			if identity(fd) == pipe:
				os.close(fd)

	def alive(self):
		"""The code of Python may have closed our descriptors, and others may have their numbers."""
		return os.getpid() == self.owner and all(identity(fd) == pipe for fd, pipe in self.pipes) and self.process.poll() is None

	def ended(self):
		"""The error that says how it ended."""
		import signal
		status = self.process.wait()
		self.close()
		try:
			how = 'by %s' % signal.Signals(-status).name if status < 0 else 'with exit status %d' % status
		except ValueError:
			how = 'by signal %d' % -status
		return own_error('NodeEnded', 'Node was ended %s, and the variables of JavaScript with it. The next cell starts it anew.' % how)

	def line(self, deadline=None):
		"""The next reply, or None: it has ended, or nothing came until DEADLINE."""
		import select
		import time
		while b'\n' not in self.unread:
			if deadline is not None and not select.select([self.replies], [], [], max(0, deadline - time.monotonic()))[0]:
				return None
			data = os.read(self.replies, 1 << 16)
			self.forged = len(self.unread) + len(data) > REPLY_MAX
			if not data or self.forged:
				return None
			self.unread += data
		line, _, self.unread = self.unread.partition(b'\n')
		return line

	def answer(self, deadline=None):
		"""Shows what the cell shows, up to its end: returns that message. None as line()."""
		while True:
			line = self.line(deadline)
			if line is None:
				return None
			message = message_of(line, self.word)
			if message is None:
				self.forged = True
				return None
			if message['kind'] == 'end':
				return message
			try:
				show_record(DISPLAY, dict(message['data'], **{'text/plain': message['text']}), message['text'] + '\n')
				flush_output()
			finally:  # an interrupt may come here, and the cell waits
				os.write(self.acks, b'.')

	def execute(self, command):
		import json
		if dict(os.environ) != self.environment:  # of this run, or the code of Python has changed it
			before, self.environment = self.environment, dict(os.environ)
			command['env'] = dict(dict.fromkeys(before), **self.environment)
		self.word = command['word'] = os.urandom(16).hex()
		data = memoryview(json.dumps(command).encode() + b'\n')
		while data:
			data = data[os.write(self.commands, data):]
		return self.answer()

	def terminate(self, deadline):
		"""Ends the code that executes, wherever it is: a signal does not reach a loop in a callback or behind an await. SIGUSR1
		starts Node's inspector, which does."""
		import base64
		import http.client
		import json
		import time
		os.kill(self.process.pid, 10)
		while time.monotonic() < deadline:
			server = http.client.HTTPConnection('127.0.0.1', self.port, timeout=max(0.01, deadline - time.monotonic()))
			try:
				server.request('GET', '/json/list')
				path = '/' + str(json.loads(server.getresponse().read(REPLY_MAX))[0]['id'])
				server.close()
				server.request('GET', path, headers={'Upgrade': 'websocket', 'Connection': 'Upgrade',
					'Sec-WebSocket-Version': '13', 'Sec-WebSocket-Key': base64.b64encode(os.urandom(16)).decode()})
				connection = server.sock  # getresponse() gives it up
				head = b''
				while b'\r\n\r\n' not in head and len(head) < 4096:
					head += connection.recv(4096) or b'\r\n\r\n'
				order = b'{"id":1,"method":"Runtime.terminateExecution"}'
				connection.sendall(bytes([0x81, 0x80 | len(order)]) + bytes(4) + order)
				return b'"id":1' in connection.recv(4096)
			except ConnectionRefusedError:  # it does not listen yet
				time.sleep(0.01)
			except (OSError, ValueError, LookupError, TypeError, http.client.HTTPException):
				return False
			finally:
				server.close()
		return False

	def interrupt(self):
		"""True: its cell has ended, and the variables are still there."""
		import signal
		import time
		end = time.monotonic() + REACT_S
		before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])  # init's second one is for the same cell
		try:
			os.killpg(self.process.pid, 2)
			if self.answer(time.monotonic() + SIGNAL_S) is not None:
				return True
			if self.forged or not has_history or not self.terminate(end):
				return False
			tell('Code of JavaScript in a callback or behind an await did not end and was stopped there. The variables of JavaScript are still there.')
			if self.answer(time.monotonic() + SIGNAL_S / 2) is None:  # a cell that waited for that code has begun only now
				os.killpg(self.process.pid, 2)
				return self.answer(end) is not None
			return True
		except (OSError, KeyboardInterrupt):
			return False
		finally:
			while signal.sigtimedwait([signal.SIGINT], 0):
				pass
			signal.pthread_sigmask(signal.SIG_SETMASK, before)


def valid(text, default=''):
	"""TEXT without halves of letters, which could not be written; DEFAULT if it is no text."""
	return text.encode('utf-8', 'replace').decode() if type(text) is str else default


def message_of(line, word):
	"""The message in LINE with members of the types that they must have; None: it is none."""
	import json
	try:
		found = json.loads(line)
		said, kind, data, text, code, error = (found.get(name) for name in ('word', 'kind', 'data', 'text', 'exit', 'error'))
	except (ValueError, RecursionError, AttributeError):
		return None
	if said != word or kind not in ('show', 'end') or type(code) is not int and kind == 'end':
		return None
	if type(error) is dict:
		error = [valid(error.get(name)) for name in ('name', 'message', 'text')]
	else:
		error = None
	data = {valid(k): valid(v) for k, v in data.items() if type(v) is str} if type(data) is dict else {}
	return {'kind': kind, 'data': data, 'text': valid(text, None if kind == 'end' else ''), 'exit': code & 255 if kind == 'end' else 0, 'error': error}


def flush_output():
	for file in sys.stdout, sys.stderr:
		if file is not None:
			file.flush()


def node_for_cell():
	"""The process of the session; tells if it is another one than before."""
	global the_node, node_lost
	if the_node is not None and not the_node.alive():
		node_lost = node_lost or 'it has ended since the last cell' if os.getpid() == the_node.owner else 'the session went back to an earlier state'
		the_node.close()
		the_node = None
	if the_node is None:
		found = NodeProcess()
		if node_lost:
			tell('Node was started anew, and the variables of earlier cells of JavaScript are gone: %s.' % node_lost)
		the_node, node_lost = found, ''
	return the_node


def run_script(language, code):
	"""Executes a cell; returns its value."""
	global node_lost
	flush_output()
	node = node_for_cell()
	command = {'code': code, 'typescript': LANGUAGES[language], 'last': not has_history}
	if has_history:
		command['cell'] = cells
	else:
		command['argv'] = sys.argv[1:]
	flush_output()
	try:
		message = node.execute(command)
	except KeyboardInterrupt:
		if not node.interrupt():
			node.close()
			node_lost = 'the last one did not react to an interrupt'
			tell('Node did not react to the interrupt and was ended. The variables of JavaScript are gone.')
		raise ForeignInterrupt from None
	except OSError:  # the code of Python has closed our descriptors, or Node has ended
		message = None
	if message is None:
		if node.forged:
			node.close()
			raise own_error('NodeEnded', 'Node was ended, and the variables of JavaScript with it: it sent what is no message of the kernel.')
		raise node.ended()
	if message['error']:
		raise ForeignError(*message['error'])
	if message['exit']:
		raise SystemExit(message['exit'])
	if message['text'] is not None:
		return ForeignValue(message['text'], message['data'])
	return None
