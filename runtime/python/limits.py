# SPDX-License-Identifier: Apache-2.0
"""The figures of the sandbox itself for programs that ask /proc for those of the machine: its memory limit and what it
uses, its processors, its processes. /proc shows processes only, so there is no /proc/meminfo to read.

Two uses: psutil gets these texts in place of the files (found(), called by a line of caisson.pth), and the
commands free, uptime, ps, pgrep and pkill of the sandbox execute this file as a program. It is a file of the skeleton: no
module of the run's program is needed, and nothing here is trusted by anybody."""
import os
import sys
import time

TICKS = os.sysconf('SC_CLK_TCK')
PAGE = os.sysconf('SC_PAGE_SIZE')


def processors():
	text = os.environ.get('PYTHON_CPU_COUNT', '')
	return int(text) if text.isdigit() and int(text) else len(os.sched_getaffinity(0))


OTHERS = {}  # processes of other runs: {pid: {'stat': bytes, 'status': bytes, 'cmdline': bytes}}


def of_other(path):
	"""The file PATH of /proc of a process of another run, which is not there for this one; or None."""
	parts = path.split('/')
	if len(parts) != 4 or parts[1] != 'proc' or parts[2] not in OTHERS:
		return None
	try:
		os.kill(int(parts[2]), 0)
	except ProcessLookupError:  # it has ended since init was asked
		del OTHERS[parts[2]]
		return None
	except OSError:
		pass
	return OTHERS[parts[2]].get(parts[3])


def read(path):
	try:
		with open(path, 'rb') as f:
			return f.read()
	except OSError:
		return of_other(path) or b''


def ask_init():
	"""Fills OTHERS. What init is asked, and what it answers: runtime/ask_init.h. Nothing where it cannot be asked."""
	import array
	import socket
	import struct
	here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
	with here, there, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as init:
		try:
			init.settimeout(2)
			here.settimeout(2)
			init.sendmsg([struct.pack('Iii', 2, 0, 0)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [there.fileno()]))], 0,
			             '/run/caisson/init')
			there.close()
			said, more = here.recvmsg(4, socket.CMSG_SPACE(4))[:2]
		except OSError:
			return
	if len(said) != 4 or not more:
		return
	with open(array.array('i', more[0][2])[0], 'rb') as f:
		data = f.read()
	OTHERS.clear()
	at = 0
	while at < len(data):
		pid, *sizes = struct.unpack_from('4I', data, at)
		at += 16
		files = {}
		for name, size in zip(('stat', 'status', 'cmdline'), sizes):
			files[name] = data[at:at + size]
			at += size
		OTHERS[str(pid)] = files


def everyone():
	"""Also processes of other runs, as far as this one may signal them."""
	ask_init()
	return sorted({*numbers(), *(int(pid) for pid in OTHERS)})


def numbers():
	return sorted(int(name) for name in os.listdir('/proc') if name.isdigit())


def stat_of(pid):
	"""The fields of /proc/PID/stat from the state on, and the name; None if the process has ended."""
	head, found, rest = read('/proc/%d/stat' % pid).decode('utf-8', 'replace').rpartition(')')
	return (rest.split(), head.partition('(')[2]) if found else None


def resident(pid):
	"""Bytes of memory of a process; what several share is divided among them."""
	for line in read('/proc/%d/smaps_rollup' % pid).splitlines():
		if line.startswith(b'Pss:'):
			return int(line.split()[1]) * 1024
	return 0


def in_files():
	"""Bytes of files that are in memory."""
	used, seen = 0, set()
	for line in read('/proc/self/mountinfo').decode('utf-8', 'replace').splitlines():
		words = line.split()
		if ' - tmpfs ' not in line or words[2] in seen or not words[5].startswith('rw'):
			continue
		seen.add(words[2])
		try:
			place = os.statvfs(words[4])
		except OSError:
			continue
		used += (place.f_blocks - place.f_bfree) * place.f_frsize
	return used


def memory():
	"""(limit, bytes of processes, bytes of files). init gives /dev/shm half of the memory limit (setup_root.c); a limit
	that was changed since is in the environment."""
	shm = os.statvfs('/dev/shm')
	changed = os.environ.get('CAISSON_MEMORY', '')
	limit = int(changed) if changed.isdigit() else 2 * shm.f_blocks * shm.f_frsize
	return max(1, limit), sum(resident(pid) for pid in numbers()), in_files()


def age():
	"""Seconds since the sandbox began: its /proc was mounted then."""
	return max(0.01, time.time() - os.stat('/proc').st_ctime)


def meminfo():
	limit, used, files = memory()
	free = max(0, limit - used - files)
	rows = (('MemTotal', limit), ('MemFree', free), ('MemAvailable', free), ('Buffers', 0), ('Cached', files),
	        ('SwapCached', 0), ('Active', used), ('Inactive', files), ('SwapTotal', 0), ('SwapFree', 0),
	        ('Shmem', files), ('Slab', 0), ('SReclaimable', 0))
	return ''.join('%-15s %8d kB\n' % (name + ':', value // 1024) for name, value in rows)


def stat():
	n, busy = processors(), [0, 0]
	for pid in numbers():
		found = stat_of(pid)
		if found:
			busy[0] += int(found[0][11])
			busy[1] += int(found[0][12])
	idle = max(0, int(age() * TICKS) * n - sum(busy))
	line = '%s %d 0 %d %d 0 0 0 0 0 0\n'
	each = [line % ('cpu%d' % i, busy[0] // n, busy[1] // n, idle // n) for i in range(n)]
	# Start times of processes count from here: clock_gettime(2) tells it to everybody.
	began = int(time.time() - time.clock_gettime(time.CLOCK_BOOTTIME))
	return line % ('cpu ', busy[0], busy[1], idle) + ''.join(each) + 'ctxt 0\nintr 0\nsoftirq 0\nbtime %d\nprocesses %d\n' % (
		began, len(numbers()))


def cpuinfo():
	n = processors()
	return ''.join('processor\t: %d\nphysical id\t: 0\ncore id\t\t: %d\ncpu cores\t: %d\n\n' % (i, i, n) for i in range(n))


FILES = {
	'/proc/meminfo': meminfo, '/proc/stat': stat, '/proc/cpuinfo': cpuinfo,
	'/proc/uptime': lambda: '%.2f %.2f\n' % (age(), age()),
	'/proc/loadavg': lambda: '0.00 0.00 0.00 1/%d 0\n' % len(numbers()),
	'/proc/vmstat': lambda: 'pswpin 0\npswpout 0\n',
	'/proc/filesystems': lambda: 'nodev\ttmpfs\n' + ''.join('\t%s\n' % name for name in ('ext4', 'xfs', 'btrfs')),
	'/proc/net/dev': lambda: 'Inter-| Receive | Transmit\n face |\n    lo:' + ' 0' * 16 + '\n',  # no numbers are counted here
}


# psutil -----------------------------------------------------------------------------------------------


def or_else(function, instead):
	"""FUNCTION, and INSTEAD where the filter refuses what it asks the kernel: netlink, or the call of ethtool."""
	def answer(*args):
		try:
			return function(*args)
		except OSError:
			return instead(*args)
	return answer


def known(function, is_text):
	"""FUNCTION, which returns the content of a file, and what of_other() says where there is none."""
	def content(path, *args, **more):
		other = of_other(str(path)) if not os.path.exists(path) else None
		return function(path, *args, **more) if other is None else other.decode('utf-8', 'replace') if is_text else other
	return content


def patch(module):
	import io
	for name, make in ('open_binary', lambda text: io.BytesIO(text.encode())), ('open_text', io.StringIO):
		original = getattr(module, name)

		def opened(path, original=original, make=make):
			text = FILES.get(path)
			other = of_other(str(path)) if not text and not os.path.exists(path) else None
			if other is not None:
				return make(other.decode('utf-8', 'replace'))
			return make(text()) if text and not os.path.exists(path) else original(path)
		setattr(module, name, opened)
	for name in 'bcat', 'cat':
		if hasattr(module, name):
			setattr(module, name, known(getattr(module, name), name == 'cat'))
	module.pids = everyone
	module.cpu_count_logical = processors
	module.cpu_count_cores = processors
	module.disk_io_counters = lambda perdisk=False: {}
	module.net_if_addrs = or_else(module.net_if_addrs, lambda: [('lo', 2, '127.0.0.1', '255.0.0.0', None, None)])  # 2: AF_INET
	module.cext.net_if_duplex_speed = or_else(module.cext.net_if_duplex_speed, lambda name: (module.cext.DUPLEX_UNKNOWN, 0))


def found(name, path):
	"""Finds psutil's module as the other finders do, and patches it when it has been imported."""
	from importlib.machinery import PathFinder
	spec = PathFinder.find_spec(name, path)
	if spec is None or not hasattr(spec.loader, 'exec_module'):
		return spec
	loader = spec.loader
	run = loader.exec_module

	def exec_module(module):
		del loader.exec_module
		run(module)
		patch(module)
	loader.exec_module = exec_module
	return spec


# Commands ---------------------------------------------------------------------------------------------


def free(words):
	unit = 1024
	for word in words:
		letters = word.lstrip('-')
		for letter, size in ('b', 1), ('k', 1 << 10), ('m', 1 << 20), ('g', 1 << 30):
			if letters[:1] == letter or letters in (letter + 'ebi', letter + 'ibi'):
				unit = size
		if letters in ('h', 'human'):
			unit = 0

	def shown(n):
		if unit:
			return str(n // unit)
		for sign, size in ('Gi', 1 << 30), ('Mi', 1 << 20):
			if n >= size:
				return '%.1f%s' % (n / size, sign)
		return '%dKi' % (n >> 10)
	limit, used, files = memory()
	left = max(0, limit - used - files)
	print('%15s %11s %11s %11s %11s %11s' % ('total', 'used', 'free', 'shared', 'buff/cache', 'available'))
	for title, row in ('Mem:', (limit, used, left, files, files, left)), ('Swap:', (0, 0, 0)):
		print('%-4s' % title + ''.join(' %*s' % (10 if i == 0 and title == 'Mem:' else 11 if i else 10, shown(n)) for i, n in enumerate(row)))


def uptime(words):
	seconds = int(age())
	print(' %s up %d:%02d,  0 users,  load average: 0.00, 0.00, 0.00' % (
		time.strftime('%H:%M:%S'), seconds // 3600, seconds // 60 % 60))


COMMAND_MAX = 500


def ids_of(pid):
	"""The real, effective, saved and file system user of a process; [] if it has ended."""
	for line in read('/proc/%d/status' % pid).splitlines():
		if line.startswith(b'Uid:'):
			return [int(word) for word in line.split()[1:]]
	return []


def owner(pid):
	import pwd  # here, since every Python loads this file
	try:
		uid = ids_of(pid)[1]
		return pwd.getpwuid(uid).pw_name
	except KeyError:
		return str(uid)
	except IndexError:
		return '?'


def ps(words):
	style = ''.join(words).lstrip('-')
	if not words or len(words) > 1 or style.rstrip('w') not in ('aux', 'ef', 'eF', 'ax', 'au', 'u', 'f'):
		os.execv('/usr/bin/ps', ['ps'] + words)
	limit = memory()[0]
	now = time.clock_gettime(time.CLOCK_BOOTTIME)
	bsd = 'u' in style or 'a' in style
	print('USER         PID %CPU %MEM    VSZ   RSS TTY      STAT START   TIME COMMAND' if bsd
	      else 'UID          PID    PPID  C STIME TTY          TIME CMD')
	for pid in everyone():
		both = stat_of(pid)
		if not both:
			continue
		f, name = both
		command = read('/proc/%d/cmdline' % pid).replace(b'\0', b' ').replace(b'\n', b' ').strip().decode('utf-8', 'replace') or '[%s]' % name
		if len(command) > COMMAND_MAX:  # such as python3 -c TEXT, as a cold run is started
			command = command[:COMMAND_MAX] + '...'
		busy = (int(f[11]) + int(f[12])) / TICKS
		lived = max(0.01, now - int(f[19]) / TICKS)
		began = time.strftime('%H:%M', time.localtime(time.time() - lived))
		rss = int(f[21]) * PAGE
		cpu = min(busy / lived * 100, 999.0)
		if bsd:
			print('%-8s %7d %4.1f %4.1f %6d %5d ?        %-4s %s %3d:%02d %s' % (
				owner(pid), pid, cpu, rss * 100 / limit, int(f[20]) >> 10, rss >> 10, f[0], began, busy // 60, busy % 60, command))
		else:
			print('%-8s %7d %7s %2d %s ?        %02d:%02d:%02d %s' % (
				owner(pid), pid, f[1], cpu, began, busy // 3600, busy // 60 % 60, busy % 60, command))


VALUES = {'-u': 'user', '--euid': 'user', '-U': 'user', '--uid': 'user', '-P': 'parent', '--parent': 'parent', '-d': 'between',
          '--delimiter': 'between', '--signal': 'signal', '-s': 'signal'}
FLAGS = {'f': 'full', 'x': 'exact', 'i': 'ignore', 'n': 'newest', 'o': 'oldest', 'c': 'count', 'l': 'names', 'a': 'lines',
         'v': 'inverse', 'e': 'echo'}
LONG = {'--full': 'f', '--exact': 'x', '--ignore-case': 'i', '--newest': 'n', '--oldest': 'o', '--count': 'c', '--list-name': 'l',
        '--list-full': 'a', '--inverse': 'v', '--echo': 'e'}


def signal_named(text):
	import signal
	if text.isdecimal() and len(text) < 3:
		return int(text)
	return getattr(signal, 'SIG' + text.upper().replace('SIG', '', 1), None) if text.isalnum() else None


def options(words, kills):
	"""(options, patterns), or None if there is one that is not known here."""
	found, patterns = {}, []
	while words:
		word, words = words[0], words[1:]
		name, equals, value = word.partition('=')
		if word == '--':
			patterns += words
			break
		if not word.startswith('-') or word == '-':
			patterns.append(word)
		elif kills and signal_named(word[1:]) is not None:
			found['signal'] = word[1:]
		elif name in VALUES:
			if not equals and not words:
				return None
			found[VALUES[name]] = value if equals else words[0]
			words = words if equals else words[1:]
		else:
			letters = LONG.get(word, word[1:])
			if not letters or any(letter not in FLAGS for letter in letters):
				return None
			found.update((FLAGS[letter], True) for letter in letters)
	return found, patterns


def users(text):
	import pwd
	return [int(name) if name.isdigit() else pwd.getpwnam(name).pw_uid for name in text.split(',')]


def ancestors():
	"""This process, and those that have started it."""
	pid, found = os.getpid(), []
	while pid > 1 and len(found) < 64:
		found.append(pid)
		both = stat_of(pid)
		pid = int(both[0][1]) if both else 0
	return found


def matching(o, patterns):
	"""[(start, pid, name, command line)] of the processes that pgrep(1) would find with -A, oldest first. A command is
	executed by `sh -c COMMAND`: without -A, `pkill -f server; ...` would end itself."""
	import re
	wanted = re.compile(patterns[0] if patterns else '', re.I if o.get('ignore') else 0)
	found, own = [], ancestors()
	for pid in everyone():
		both = stat_of(pid)
		if not both or pid in own:
			continue
		f, name = both
		line = read('/proc/%d/cmdline' % pid).rstrip(b'\0').replace(b'\0', b' ').decode('utf-8', 'replace') or name
		text = line if o.get('full') else name
		hit = bool(wanted.fullmatch(text) if o.get('exact') else wanted.search(text))
		hit = hit and ('parent' not in o or f[1] in o['parent'].split(','))
		hit = hit and ('user' not in o or (ids_of(pid) or [-1, -1])[1] in users(o['user']))
		if hit != bool(o.get('inverse')):
			found.append((int(f[19]), pid, name, line))
	found.sort()
	return found[-1:] if o.get('newest') else found[:1] if o.get('oldest') else found


def grep(words, kills=False):
	me = 'pkill' if kills else 'pgrep'
	both = options(words, kills)
	real = '/usr/bin/' + me
	if not both or len(both[1]) > 1 or '[[:' in ''.join(both[1]) or not (both[1] or 'user' in both[0] or 'parent' in both[0]):
		if os.path.exists(real):
			os.execv(real, [me] + words)
		sys.exit('%s: give one pattern and options of: -f -x -i -n -o -c -l -a -v -u USER -P PID%s' % (me, ' -SIGNAL' if kills else ''))
	o = both[0]
	import re
	try:
		found = matching(o, both[1])
		signo = signal_named(o.get('signal', 'TERM'))
		if signo is None:
			raise ValueError('unknown signal: %s' % o['signal'])
	except (re.error, KeyError, ValueError) as e:
		print('%s: %s' % (me, e), file=sys.stderr)
		sys.exit(2)
	done = 0
	for _, pid, name, line in found:
		try:
			if kills:
				os.kill(pid, signo)
				if o.get('echo'):
					print('%s killed (pid %d)' % (name, pid))
			done += 1
		except ProcessLookupError:
			pass
		except OSError as e:
			print('%s: killing pid %d failed: %s' % (me, pid, e.strerror), file=sys.stderr)
	if o.get('count'):
		print(len(found))
	elif not kills and found:
		print(o.get('between', '\n').join('%d %s' % (pid, line if o.get('lines') else name) if o.get('lines') or o.get('names') else str(pid)
		                                  for _, pid, name, line in sorted(found, key=lambda p: p[1])))
	sys.exit(0 if done else 1)


if __name__ == '__main__':
	{'free': free, 'uptime': uptime, 'ps': ps, 'pgrep': grep, 'pkill': lambda words: grep(words, True)}[sys.argv[1]](sys.argv[2:])
