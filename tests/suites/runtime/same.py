#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""same.py BUILD [--image NAME] [--python PATH] [--science] [NAME...]

Runs every program of cases.py three ways in one stand-in sandbox: plain `python3 -c`, cold (boot.py) and
warm (zygote), and compares stdout, stderr and exit status. Prints the differences and one line a mode; the last
line is 'N passed, N failed'. Needs root."""
import argparse
import array
import json
import os
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time

import spaces
from cases import CASES, SCIENCE, VENV

LIMIT_S = 60
ENV = {'PATH': '/usr/local/bin:/usr/bin:/bin', 'HOME': '/home/sandbox', 'LANG': 'C.UTF-8', 'MPLBACKEND': 'Agg',
       'MPLCONFIGDIR': '/tmp/.config/matplotlib', 'PYTHONUNBUFFERED': '1', 'TERM': 'dumb', 'PIP_RETRIES': '0'}


def collect(pid, out, err):
	"""Reads both streams until the process has ended; what a left-behind holder of the pipes does is not waited for."""
	got = {out: b'', err: b''}
	status = None
	end = time.monotonic() + LIMIT_S
	while True:
		if status is None:
			try:
				done, s = os.waitpid(pid, os.WNOHANG)
			except ChildProcessError:
				done = 0  # a spare is adopted when its middle process is gone, a moment after it is ready
			if done:
				status = s
		ready = select.select(list(got), [], [], 0.002 if status is None else 0.05)[0]
		moved = False
		for fd in ready:
			data = os.read(fd, 65536)
			moved = moved or bool(data)
			got[fd] += data
		if status is not None and not moved:
			break
		if time.monotonic() > end:
			os.kill(pid, signal.SIGKILL)
			status = os.waitpid(pid, 0)[1]
			got[err] += b'\nTEST: took too long'
			break
	result = got[out], got[err], status
	os.close(out)
	os.close(err)
	return result


class Runner:
	"""The part of init that starts runs; lives in the sandbox as its PID 1."""

	def __init__(self, boot, python, channel):
		self.boot, self.python, self.channel = boot, python, channel
		self.spare = None

	def exec(self, argv, source, stdin, env, fds):
		pid = os.fork()
		if pid:
			return pid
		try:
			os.setsid()
			os.setgroups([]), os.setresgid(1000, 1000, 1000), os.setresuid(1000, 1000, 1000)
			spaces.libc.prctl(38, 1, 0, 0, 0)
			high = [os.dup2(fd, 40 + i) for i, fd in enumerate([stdin, fds[0], fds[1], source])]
			for i, fd in enumerate(high[:3] + (high[3:] if source != stdin else [])):
				os.dup2(fd, i)
			os.closerange(4 if source != stdin else 3, 65536)
			os.chdir('/mnt/data')
			os.umask(0o022)
			os.execve(self.python, argv, env)
		finally:
			os._exit(126)

	def pipes(self):
		out, err = os.pipe(), os.pipe()
		return (out[0], err[0]), (out[1], err[1])

	def plain(self, text, stdin, env):
		ours, theirs = self.pipes()
		pid = self.exec(['python3', '-c', text], stdin, stdin, env, theirs)
		[os.close(fd) for fd in theirs]
		return collect(pid, *ours)

	def cold(self, text, stdin, env):
		ours, theirs = self.pipes()
		source = spaces.memfd(text.encode())
		pid = self.exec(['python3', '-c', self.boot], source, stdin, env, theirs)
		[os.close(fd) for fd in (*theirs, source)]
		return collect(pid, *ours)

	def ready(self, sock):
		data, anc, _, _ = sock.recvmsg(64, 256)
		if not data:
			raise RuntimeError('no interpreter')
		return [struct.unpack('iii', v[:12])[0] for _, k, v in anc if k == 2][0]

	def fork(self):
		a, b = spaces.pair()
		a.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
		spaces.send(self.channel, struct.pack('=Ii8I', spaces.FORK, *[0] * 9) + bytes(16 * 24), [b.fileno()])
		b.close()
		self.spare = a, self.ready(a)

	def warm(self, text, stdin, env):
		if not self.spare:
			self.fork()
		ours, theirs = self.pipes()
		source = spaces.memfd(text.encode())
		block = b''.join(('%s=%s\0' % kv).encode() for kv in env.items())
		cwd = b'/mnt/data'
		(sock, pid), self.spare = self.spare, None
		spaces.send(sock, struct.pack('=IiIIII', spaces.RUN, 0, 0, len(block), len(cwd), 0) + block + cwd,
		            [stdin, *theirs, source])
		sock.close()
		[os.close(fd) for fd in (*theirs, source)]
		return collect(pid, *ours)

	def reap(self):
		"""What a run leaves behind is killed, but for the clean interpreter."""
		for name in os.listdir('/proc'):
			if name.isdigit() and int(name) not in (1, self.clean) and not (self.spare and int(name) == self.spare[1]):
				try:
					os.kill(int(name), signal.SIGKILL)
				except ProcessLookupError:
					pass
		try:
			while os.waitpid(-1, os.WNOHANG)[0]:
				pass
		except ChildProcessError:
			pass


class Files:
	"""Files that a case wants there; a text that begins with '->' makes a link."""

	def __init__(self, files):
		self.files = files

	def __enter__(self):
		for name, text in self.files.items():
			os.makedirs(os.path.dirname(name), exist_ok=True)
			if text[:2] == '->':
				os.symlink(text[2:], name)
			else:
				with open(name, 'w') as f:
					f.write(text)

	def __exit__(self, *what):
		for name in self.files:
			os.remove(name)
			folder = os.path.dirname(name)
			shutil.rmtree(folder + '/__pycache__', True)
			while folder not in ('/mnt/data', '/app', '/home/sandbox') and not os.listdir(folder):
				os.rmdir(folder)
				folder = os.path.dirname(folder)


def serve(sock, boot, python, modes):
	anc = sock.recvmsg(64, 256)[1]
	channel = [socket.socket(fileno=array.array('i', d)[0]) for _, k, d in anc if k == 1][0]
	runner = Runner(boot, python, channel)
	runner.clean = runner.ready(channel)
	channel.send(struct.pack('=Ii', spaces.ENTER, 0))
	runner.ready(channel)
	sock.send(b'ready')
	while True:
		data = sock.recv(1 << 20)
		if not data:
			return
		job = json.loads(os.pread(int(data), 1 << 24, 0)) if data.isdigit() else json.loads(data)
		stdin_r, stdin_w = os.pipe()
		os.write(stdin_w, job['stdin'].encode('latin-1'))
		os.close(stdin_w)
		begin = time.monotonic()
		if job['mode'] == 'warm' and not runner.spare:
			runner.fork()
		with Files(job['files']):
			out, err, status = getattr(runner, job['mode'])(job['text'], stdin_r, dict(ENV, **job['env']))
		os.close(stdin_r)
		runner.reap()
		sock.send(json.dumps([out.decode('latin-1'), err.decode('latin-1'), status, time.monotonic() - begin]).encode())


def normal(text):
	text = re.sub(r'0x[0-9a-f]{6,}', '0xADDR', text)
	text = re.sub(r'\b(Thread-\d+|<string>:\d+|line \d+)\b', r'\1', text)
	return re.sub(r"\[pid \d+\]|pid=\d+|\(pid \d+\)", 'PID', text)


# Plain -c shows source lines from 3.13 on; before, only cold and warm do.
def without_lines(text):
	return re.sub(r'((?:  \|)? +File "<string>", line \d+, in .*\n)(?:(?:  \|)? {4,}.*\n)*', r'\1', text)


def known(mode, name, python):
	"""What is known to differ and said in docs/runtime-frames.md."""
	if mode == 'cold':
		return name in ('no_frames', 'recursion_depth', 'faulthandler')
	if name in ('warning_filters', 'context'):
		return True  # what importing the preload list leaves there
	return name == 'recursion_depth' and python < (3, 12) or name == 'exit_huge' and python == (3, 12)


def files_of(options, python, version):
	"""{v} in a name or a link is python3.X, {python} the interpreter."""
	words = {'v': 'python%d.%d' % version, 'python': python}
	files = dict(VENV if options.get('venv') else {}, **options.get('files', {}))
	return {name.format(**words): text.format(**words) if text[:2] == '->' else text for name, text in files.items()}


def env_of(options):
	env = dict(options.get('env', {}))
	if options.get('venv'):  # what init makes of a run's environment
		env.update(PATH='/app/.venv/bin:' + ENV['PATH'], VIRTUAL_ENV='/app/.venv')
	return env


def main():
	p = argparse.ArgumentParser()
	p.add_argument('build')
	p.add_argument('--image', help='an image of CAISSON_TEST_IMAGES; default: the Python of this machine')
	p.add_argument('--python', default='/usr/bin/python3')
	p.add_argument('--science', action='store_true')
	p.add_argument('names', nargs='*')
	a = p.parse_intermixed_args()
	image = os.path.join(os.environ['CAISSON_TEST_IMAGES'], a.image) if a.image else ''
	a.root = image + '/root' if a.image else '/'
	signal.alarm(1500)
	if os.geteuid() != 0 or not os.path.exists(a.root + '/usr/bin/python3'):
		print('skipped: %s' % ('needs root' if os.geteuid() else 'no image at ' + a.root))
		sys.exit(77)
	library = os.path.join(os.path.dirname(os.path.dirname(a.python)), 'lib')
	if library != '/usr/lib':  # a Python of one's own, linked to a library of its own
		ENV['LD_LIBRARY_PATH'] = library
		ENV['PATH'] = os.path.dirname(a.python) + ':' + ENV['PATH']
	preload = open(image + '/preload').read().split() if a.image else []
	zygote = spaces.Zygote(a.build, a.root, a.python, ' '.join(preload), ENV)
	boot = spaces.constant(a.build + '/runtime/texts.h', 'runtime_boot_text')
	box = spaces.Box(zygote, lambda sock: serve(sock, boot, a.python, 0))
	channel = zygote.clean(box)
	zygote.clean_done()
	spaces.send(box.sock, b'c', [channel.fileno()])
	channel.close()
	if box.sock.recv(64) != b'ready':
		raise RuntimeError('the stand-in sandbox did not start')
	cases = dict(CASES, **(SCIENCE if a.science else {}))
	chosen = {n: c for n, c in cases.items() if not a.names or n in a.names}
	text = subprocess.run(['/usr/sbin/chroot', a.root, a.python, '-c', 'import sys; print(*sys.version_info[:2])'],
	                      capture_output=True, check=True, env=ENV).stdout
	python = tuple(int(n) for n in text.split())
	passed = dict.fromkeys(('cold', 'warm'), 0)
	failed = 0
	for name, case in chosen.items():
		text, options = case if isinstance(case, tuple) else (case, {})
		results = {}
		for mode in 'plain', 'cold', 'warm':
			job = {'mode': mode, 'text': text, 'stdin': options.get('stdin', b'').decode('latin-1'), 'env': env_of(options),
			       'files': files_of(options, a.python, python)}
			data = json.dumps(job).encode()
			if mode == 'plain' and len(text) > 120000:
				continue
			box.sock.send(data)
			answer = box.sock.recv(1 << 22)
			if not answer:
				raise RuntimeError('the stand-in sandbox ended in %s %s' % (name, mode))
			results[mode] = json.loads(answer)
		for mode in 'cold', 'warm':
			ok = True
			for what, i in ('stdout', 0), ('stderr', 1), ('status', 2):
				want, got = results.get('plain', results['cold'])[i], results[mode][i]
				if i < 2:
					want, got = normal(want), normal(got)
					if without_lines(want) == without_lines(got) and want != got and len(got) > len(want):
						want = got
				if want != got:
					ok = False
					if known(mode, name, python):
						continue
					print('%s: %s: %s differs\n  plain: %r\n  %s: %r' % (name, mode, what, want, mode, got))
			if ok or known(mode, name, python):
				passed[mode] += 1
			else:
				failed += 1
	for mode in passed:
		print('mode %s: %d cases' % (mode, passed[mode]))
	print('%d passed, %d failed' % (sum(passed.values()), failed))
	box.close()
	zygote.close()
	sys.exit(1 if failed or not chosen else 0)


if __name__ == '__main__':
	main()
