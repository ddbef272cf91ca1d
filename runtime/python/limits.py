# SPDX-License-Identifier: Apache-2.0
"""The figures of the sandbox itself for programs that ask /proc for those of the machine: its memory limit and what it
uses, its processors, its processes. /proc shows processes only, so there is no /proc/meminfo to read.

Two uses: psutil gets these texts in place of the files (found(), called by a line of caisson.pth), and the
commands free, uptime and ps of the sandbox execute this file as a program. It is a file of the skeleton: no
module of the run's program is needed, and nothing here is trusted by anybody."""
import os
import sys
import time

TICKS = os.sysconf('SC_CLK_TCK')
PAGE = os.sysconf('SC_PAGE_SIZE')


def processors():
	text = os.environ.get('PYTHON_CPU_COUNT', '')
	return int(text) if text.isdigit() and int(text) else len(os.sched_getaffinity(0))


def read(path):
	try:
		with open(path, 'rb') as f:
			return f.read()
	except OSError:
		return b''


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


def patch(module):
	import io
	for name, make in ('open_binary', lambda text: io.BytesIO(text.encode())), ('open_text', io.StringIO):
		original = getattr(module, name)

		def opened(path, original=original, make=make):
			text = FILES.get(path)
			return make(text()) if text and not os.path.exists(path) else original(path)
		setattr(module, name, opened)
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


def owner(pid):
	import pwd  # here, since every Python loads this file
	try:
		uid = os.stat('/proc/%d' % pid).st_uid
		return pwd.getpwuid(uid).pw_name
	except KeyError:
		return str(uid)
	except OSError:
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
	for pid in numbers():
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


if __name__ == '__main__':
	{'free': free, 'uptime': uptime, 'ps': ps}[sys.argv[1]](sys.argv[2:])
