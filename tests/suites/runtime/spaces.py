# SPDX-License-Identifier: Apache-2.0
"""Namespaces for the tests of warm interpreters: a small stand-in for monitor and init, so that the
runtime can be tested and measured alone. Root only. Not isolation: nobody hostile runs in here."""
import array
import ctypes
import os
import signal
import socket
import struct
import traceback

libc = ctypes.CDLL(None, use_errno=True)
NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET = (
	0x20000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000)
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = (
	1, 2, 4, 8, 32, 4096, 16384, 1 << 18)
MNT_DETACH = 2

READY_ZYGOTE, CLEAN, CLEAN_DONE, HELLO, ENTER, READY, FORK, RUN, RUN_DONE = range(1, 10)

def check(r, what):
	if r < 0:
		e = ctypes.get_errno()
		raise OSError(e, '%s: %s' % (what, os.strerror(e)))
	return r

def unshare(flags):
	check(libc.unshare(flags), 'unshare')

def setns(fd, flags):
	check(libc.setns(fd, flags), 'setns')

def mount(source, target, kind=None, flags=0, data=None):
	enc = [x.encode() if x is not None else None for x in (source, target, kind, data)]
	check(libc.mount(enc[0], enc[1], enc[2], ctypes.c_ulong(flags), enc[3]), 'mount ' + target)

def pivot(root):
	os.chdir(root)
	check(libc.syscall(155, b'.', b'.'), 'pivot_root')
	check(libc.umount2(b'.', MNT_DETACH), 'umount')
	os.chdir('/')

def write(path, text):
	with open(path, 'w') as f:
		f.write(text)

def send(sock, data, fds=()):
	sock.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', fds))] if fds else [])

def pair():
	return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

def memfd(data, name='data'):
	fd = os.memfd_create(name, 0)
	os.write(fd, data) if len(data) < 1 << 20 else open(fd, 'wb', closefd=False).write(data)
	os.lseek(fd, 0, 0)
	return fd

def constant(header, name):
	"""The C string constant NAME of a generated header."""
	import re
	text = open(header).read()
	body = re.search(r'%s\[\][^=]*=\n(.*?);\n' % name, text, re.S).group(1)
	out = []
	for line in body.splitlines():
		out.append(re.sub(r'\\(.)', lambda m: {'n': '\n', 't': '\t'}.get(m.group(1), m.group(1)),
		                  line.strip()[1:-1]))
	return ''.join(out)

class Zygote:
	"""Started as the monitor will start it: root of a user namespace with many ids, image as root."""

	def __init__(self, build, root='/', python='/usr/bin/python3', preload='', env=None, filter=b''):
		self.root = root
		self.sock, theirs = pair()
		go_r, go_w = os.pipe()
		text = constant(build + '/runtime/texts.h', 'runtime_zygote_text')
		so = os.open(build + '/runtime/caisson_zygote.so', os.O_RDONLY)
		program = memfd(filter)
		self.pid = os.fork()
		if self.pid == 0:
			try:
				unshare(NEWUSER | NEWNS)
				os.write(go_w, b'm')
				os.read(theirs.fileno(), 1)
				os.setgroups([]), os.setresgid(0, 0, 0), os.setresuid(0, 0, 0)
				self.enter_image(root)
				fds = [os.dup2(fd, 40 + i) for i, fd in enumerate([theirs.fileno(), so, program])]
				null = os.open('/dev/null', os.O_RDWR)
				os.dup2(null, 0)
				for i, fd in enumerate(fds):
					os.dup2(fd, 3 + i)
				os.closerange(6, 65536)
				os.execve(python, ['python3', '-c', text], dict(
					{'HOME': '/home/sandbox', 'LANG': 'C.UTF-8', 'MPLBACKEND': 'Agg', 'OPENBLAS_NUM_THREADS': '1',
					 'PATH': '/usr/local/bin:/usr/bin:/bin', 'CAISSON_PRELOAD': preload, 'CAISSON_UNFILTERED': '' if filter else '1'}, **(env or {})))
			except BaseException as e:
				os.write(2, ('zygote: %r\n' % e).encode())
			finally:
				os._exit(127)
		theirs.close()
		os.close(so)
		os.close(program)
		os.close(go_w)  # otherwise a child that cannot make its namespaces would be waited for for ever
		if not os.read(go_r, 1):
			raise RuntimeError('no namespaces for a zygote: status %r' % (os.waitpid(self.pid, 0)[1],))
		for name in 'uid_map', 'gid_map':
			write('/proc/%d/%s' % (self.pid, name), '0 300000 65535')
		self.sock.send(b'x')
		data = self.sock.recv(4096)
		if len(data) < 40:
			raise RuntimeError('the zygote did not start: status %r' % (os.waitpid(self.pid, 0)[1],))
		self.hello = dict(zip(('modules', 'threads', 'ms', 'anon', 'huge'), struct.unpack('=IiIIIIQQ', data)[3:]))

	@staticmethod
	def enter_image(root):
		mount(None, '/', None, MS_REC | MS_PRIVATE)
		if root == '/':
			Zygote.own_root()
		if root != '/':
			mount(root, root, None, MS_BIND | MS_REC)
			mount('/proc', root + '/proc', None, MS_BIND | MS_REC)
			mount('/dev', root + '/dev', None, MS_BIND | MS_REC)
			os.makedirs(root + '/mnt/data', exist_ok=True)
			pivot(root)
		for path in '/tmp', '/home', '/mnt':
			if path != '/mnt' or root != '/':
				mount('tmpfs', path, 'tmpfs', 0, 'mode=1777')
		os.makedirs('/home/sandbox', exist_ok=True)
		if root != '/':
			os.makedirs('/mnt/data', exist_ok=True)

	@staticmethod
	def own_root():
		"""The machine's folders in a root of our own, where places can be made that the machine does not have."""
		mount('tmpfs', '/mnt', 'tmpfs', 0, 'mode=755')
		for entry in os.scandir('/'):
			target = '/mnt' + entry.path
			if entry.is_symlink():
				os.symlink(os.readlink(entry.path), target)
			elif entry.is_dir() and entry.name != 'mnt':
				os.mkdir(target)
				mount(entry.path, target, None, MS_BIND | MS_REC)
		os.makedirs('/mnt/app', exist_ok=True)
		os.mkdir('/mnt/mnt')
		pivot('/mnt')

	def clean(self, box, uid=1000, leaves=()):
		"""A clean interpreter in BOX; returns init's end of its channel."""
		ours, theirs = pair()
		ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
		data = struct.pack('=IiIIII', CLEAN, 0, uid, uid, len(leaves), 0)
		pidfd = os.pidfd_open(box.pid)
		send(self.sock, data, [pidfd, theirs.fileno(), *leaves])
		theirs.close()
		os.close(pidfd)
		return ours

	def clean_done(self):
		kind, error = struct.unpack('=Ii', self.sock.recv(64))
		if kind != CLEAN_DONE or error:
			raise OSError(error, os.strerror(error))

	def close(self):
		self.sock.close()
		os.waitpid(self.pid, 0)

class Box:
	"""A process that is init of own namespaces inside the zygote's user namespace. MAIN runs in it."""

	def __init__(self, zygote, main):
		self.sock, theirs = pair()
		self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
		userns = os.open('/proc/%d/ns/user' % zygote.pid, os.O_RDONLY)
		mntns = os.open('/proc/%d/ns/mnt' % zygote.pid, os.O_RDONLY)
		helper = os.fork()
		if helper == 0:
			try:
				self.sock.close()
				setns(userns, NEWUSER)
				setns(mntns, NEWNS)
				os.setgroups([]), os.setresgid(0, 0, 0), os.setresuid(0, 0, 0)
				libc.prctl(4, 1, 0, 0, 0)  # PR_SET_DUMPABLE: the change of uid has cleared it
				r, w = os.pipe()
				r2, w2 = os.pipe()
				maker = os.fork()
				if maker == 0:
					os.close(w2)
					unshare(NEWUSER | NEWPID | NEWNS | NEWNET | NEWIPC | NEWUTS | NEWCGROUP)
					os.write(w, b'x')
					os.read(r2, 1)
					pid = os.fork()
					if pid == 0:
						self.init(theirs, main)
					os.write(w, str(pid).encode())
					os._exit(0)
				os.close(w)
				if not os.read(r, 1):
					raise RuntimeError('no namespaces for a box')
				for name in 'uid_map', 'gid_map':
					write('/proc/%d/%s' % (maker, name), '0 0 1\n1000 5000 1')
				os.write(w2, b'x')
				os.waitpid(maker, 0)
				os._exit(0)
			except BaseException as e:
				os.write(2, ('box: %r\n' % e).encode())
			finally:
				os._exit(1)
		theirs.close()
		if os.waitpid(helper, 0)[1]:
			raise RuntimeError('no box')
		os.close(userns)
		os.close(mntns)
		data, anc, _, _ = self.sock.recvmsg(64, 256)
		for level, kind, value in anc:
			if kind == 2:  # SCM_CREDENTIALS
				self.pid = struct.unpack('iii', value[:12])[0]

	@staticmethod
	def init(sock, main):
		try:
			mount('proc', '/proc', 'proc', MS_NOSUID | MS_NODEV | MS_NOEXEC)
			for path in '/tmp', '/home', '/mnt', '/app':
				if os.path.isdir(path):
					mount('tmpfs', path, 'tmpfs', MS_NOSUID | MS_NODEV, 'mode=1777')
			for path in '/home/sandbox', '/mnt/data', '/app':
				os.makedirs(path, exist_ok=True)
				os.chown(path, 1000, 1000)
			sock.send(b'up')
			main(sock)
		except BaseException as e:

			os.write(2, ('init: %s\n' % traceback.format_exc()).encode())
		finally:
			os._exit(0)

	def close(self):
		os.kill(self.pid, signal.SIGKILL)
		self.sock.close()
