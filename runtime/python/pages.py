# SPDX-License-Identifier: Apache-2.0
"""How a zygote arranges its memory before its forks, so that a fork copies little and a run waits for few pages: huge
pages, the data of libraries, and which pages a run makes its own. Runs in the dictionary of zygote.py, before it."""
import os
import sys

HUGE = 2 << 20
SMALL = 1 << 20  # bytes; larger memory has page tables of its own anyway
FIRST = 'libc.', 'libc-', 'libpthread', 'ld-', 'ld.'  # the C library and the loader


def collapse(c):
	"""Puts the heap into huge pages, so that a fork copies a hundredth of the page tables."""
	with open('/proc/self/maps') as f:
		lines = f.read().splitlines()
	for line in lines:
		part = line.split()
		if part[1] != 'rw-p' or len(part) > 5 and part[5] != '[heap]' and not part[5].startswith('[anon'):
			continue
		low, high = (int(x, 16) for x in part[0].split('-'))
		for at in range(-(-low // HUGE) * HUGE, high // HUGE * HUGE, HUGE):
			c.collapse(at, HUGE)


def library_data():
	"""Returns the memory of libraries that is the zygote's own, as packed triples of address, length, and whether it
	is writable. The C library and the loader are left out: they work while the memory is moved. So is the
	extension, whose file has no name any more."""
	import struct
	page = os.sysconf('SC_PAGE_SIZE')
	present, of_file = 1 << 63, 1 << 61
	found = []
	with open('/proc/self/maps') as f:
		lines = [line.split() for line in f]
	after = 0  # end of a library's writable mapping; the part of its data that is no file follows, without a name
	with open('/proc/self/pagemap', 'rb', 0) as f:
		for part in lines:
			low, high = (int(x, 16) for x in part[0].split('-'))
			write = part[1] == 'rw-p'
			library = len(part) == 6 and '.so' in part[5] and not os.path.basename(part[5]).startswith(FIRST)
			rest = write and len(part) == 5 and low == after and high - low <= SMALL
			after = high if library and write else 0
			if not rest and not (library and part[1] in ('r--p', 'rw-p')):
				continue
			f.seek(low // page * 8)
			entries = memoryview(f.read((high - low) // page * 8)).cast('Q')
			own = [i for i, entry in enumerate(entries) if entry & (present | of_file) == present]
			if not own:
				continue
			at, size = low + own[0] * page, (own[-1] + 1 - own[0]) * page
			if found and found[-1][0] + found[-1][1] == at and found[-1][2] == write:
				found[-1][1] += size
			else:
				found.append([at, size, write])
	return b''.join(struct.pack('=QQQ', *item) for item in found)


def name_libraries(c):
	"""Makes the C library recognise its loaded libraries by every path that leads to them. It would find another
	path by device and inode, and those of this process are not those that a sandbox sees: RTLD_NOLOAD would
	find nothing there, and dlopen() would load a second copy."""
	with open('/proc/self/maps') as f:
		lines = [line.rstrip().split(None, 5) for line in f]
	loaded = {os.path.realpath(part[5]) for part in lines if len(part) == 6 and part[5][0] == '/' and '.so' in part[5]}
	paths = set(loaded)
	for folder in {os.path.dirname(path) for path in loaded}:
		if not os.path.isdir(folder):
			continue  # our own extension is no file of the image
		with os.scandir(folder) as entries:
			paths.update(entry.path for entry in entries if entry.is_symlink() and os.path.realpath(entry.path) in loaded)
	for path in sorted(paths):
		c.recognise(path)
		if path.startswith('/usr/lib') and os.path.islink('/lib'):
			c.recognise(path[4:])


def move_libraries(c):
	"""Keeps forks from copying the page tables of all libraries (library_data.c)."""
	try:
		c.move(library_data())
	except OSError:
		pass  # the kernel does not show the page tables


def learn(c):
	"""Plays two runs in forks: a stateless one, and a second one of a session. Learns which pages each makes
	its own; every spare copies those ahead of need (learned_pages.c). The zygote reads the page tables, so
	that reading them is not part of the run."""
	for session in False, True:
		report, told = os.pipe()
		wait, go = os.pipe()
		pid = os.fork()
		if pid == 0:
			try:
				os.close(go)
				perform(session, told, wait)
			finally:
				os._exit(0)
		os.close(told)
		performer = os.read(report, 16)  # empty after a failure: then runs have their page faults
		try:
			c.learn(session, own(performer.decode()) if performer else b'')
		except OSError:
			pass  # the kernel does not show the page tables
		for fd in report, wait, go:
			os.close(fd)
		os.waitpid(pid, 0)


def perform(session, told, wait):
	null = os.open('/dev/null', os.O_RDWR)
	for fd in 0, 1, 2:
		os.dup2(null, fd)
	refresh(True)
	play(session, False, null)
	backup = os.fork() if session else -1
	if backup > 0:
		ahead(True)
		play(True, True, null)
	if backup != 0:
		os.write(told, b'%d' % os.getpid())
	os.read(wait, 1)
	if backup > 0:
		os.waitpid(backup, 0)


def play(session, again, null):
	"""Does what spare_run.c does in a run: stateless or of a SESSION, whose first run is over if AGAIN."""
	source = os.memfd_create('code')
	os.write(source, b'n = globals().get("n", 0) + 1\nprint(n)\nn\n')
	os.lseek(source, 0, os.SEEK_SET)
	env = b'\0'.join(name + b'=' + value for name, value in os.environb.items())
	text, space = enter(source, again, env, b'/', -1, -1, True, True)
	if session:
		code, last = cell(text)
		exec(code, space)
		result(eval(last, space), null)
		flush(True)
		rest(True)
	else:
		import atexit
		for code in load(text):
			eval(code, space)
		finish(values)
		sys.modules['threading']._shutdown()
		atexit._run_exitfuncs()
		flush(True)
		leave()


def mappings():
	"""Returns the private readable mappings: first address, end, and whether they are writable."""
	with open('/proc/self/maps') as f:
		lines = [line.split() for line in f]
	return [[int(x, 16) for x in part[0].split('-')] + [part[1][1] == 'w'] for part in lines
	        if part[1][0] == 'r' and part[1][3] == 'p' and not part[-1].startswith('[v')]


def own(pid):
	"""Of the memory that this process has too: the pages that the fork PID has written to, and where it has
	read mapped files. Returns packed triples of address, length, and whether it was written (proc(5),
	pagemap)."""
	import struct
	page = os.sysconf('SC_PAGE_SIZE')
	present, of_file, alone = 1 << 63, 1 << 61, 1 << 56
	found = []
	with open('/proc/%s/pagemap' % pid, 'rb', 0) as f:
		for low, high, write in mappings():
			f.seek(low // page * 8)
			entries = memoryview(f.read((high - low) // page * 8)).cast('Q')
			for i, entry in enumerate(entries):
				bits = entry & (present | of_file | alone)
				if bits & (present | of_file) == present | of_file:
					written = False
				elif write and bits == present | alone:
					written = True
				else:
					continue
				at = low + i * page
				if found and found[-1][0] + found[-1][1] == at and found[-1][2] == written:
					found[-1][1] += page
				else:
					found.append([at, page, written])
	return b''.join(struct.pack('=QQQ', *item) for item in found)
