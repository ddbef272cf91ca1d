# SPDX-License-Identifier: Apache-2.0
"""Where a run's modules come from besides the image: its working folder, the sandbox's virtual environment in
/app/.venv (as if activated), and the user's site-packages.

A zygote imported its modules before those places existed. If one of them has a module of the same name, and
a plain interpreter would find that one first, the run cannot go on in the fork. It then starts a bare
interpreter in the same process. Known differences: docs/runtime-frames.md."""
# Modules that every interpreter imports before it looks at a run's places. Must be read before anything is
# imported here; this text itself was unpacked with two of the others (embed.py).
plain = frozenset(name.partition('.')[0] for name in sys.modules) - {'zlib', 'binascii'}

import _signal
import importlib.machinery
import os

VENV = '/app/.venv'
BARE_FD = 3
EXTENSION_COPY_FD = 103  # above the numbers that programs look at when they count descriptors

above = []  # sys.path in two parts: before the image's packages, and from them on
below = []
ours_std = ours_site = frozenset()  # names of imported modules: of the standard library, and of packages
namespaces = frozenset()  # packages among those without an __init__: any folder of that name adds to them
program = ''
own_text = ''
extension_bytes = b''


def survey():
	"""In the zygote, after the imports: notes the modules that another place could provide first."""
	import _imp
	global above, below, ours_std, ours_site, namespaces, program
	cut = [i for i, p in enumerate(sys.path) if p.endswith(('/site-packages', '/dist-packages'))] or [len(sys.path)]
	above, below = sys.path[:cut[0]], sys.path[cut[0]:]
	std, packages, open_ones = set(), {'sitecustomize', 'usercustomize'}, set()
	for name in {name.partition('.')[0] for name in sys.modules} - plain:
		if name in sys.builtin_module_names or _imp.is_frozen(name) or name not in sys.modules:
			continue
		spec = getattr(sys.modules[name], '__spec__', None)
		origin = getattr(spec, 'origin', None)
		if spec is not None and origin is None:
			open_ones.add(name)
		(std if origin and not origin.startswith(tuple(below)) else packages).add(name)
	ours_std, ours_site, namespaces = frozenset(std), frozenset(packages), frozenset(open_ones)
	program = sys.executable or '/usr/bin/python3'


def remember(fd):
	"""Keeps what hold() will need: the text of this program, and the extension in FD."""
	global own_text, extension_bytes
	with open('/proc/self/cmdline', 'rb') as f:
		own_text = f.read().split(b'\0')[2].decode()
	extension_bytes = os.pread(fd, 1 << 24, 0)


def holds(place, names):
	"""True if a plain interpreter would find one of NAMES in the folder PLACE ('' = the working folder)."""
	try:
		there = names.intersection(entry.partition('.')[0] for entry in os.listdir(place or '.'))
	except OSError:
		return False
	before = set(sys.path_importer_cache)
	try:
		for name in there:
			spec = importlib.machinery.PathFinder.find_spec(name, [place])
			if spec is not None and (spec.loader is not None and spec.origin or name in namespaces):
				return True
	finally:
		for path in set(sys.path_importer_cache) - before:
			del sys.path_importer_cache[path]
	return False


def sees_image():
	"""True if the virtual environment sees the image's packages. Reads pyvenv.cfg as the interpreter does."""
	seen = 'true'
	with open(VENV + '/pyvenv.cfg', encoding='utf-8') as f:
		for line in f:
			key, equals, value = line.partition('=')
			if equals and key.strip().lower() == 'include-system-site-packages':
				seen = value.strip().lower()
	return seen == 'true'


def activate(known_paths):
	"""Does what an interpreter does about a virtual environment when it starts."""
	import site
	sys.executable = VENV + '/bin/python3'
	sys.prefix = sys.exec_prefix = VENV
	if sys.version_info >= (3, 14):
		site.PREFIXES = [VENV, VENV]
	site.venv(known_paths)
	sys._base_executable = sys.executable
	if sys.version_info >= (3, 11):
		real = os.path.realpath(sys.executable)
		sys._base_executable = real if real != sys.executable else os.path.join(sys._home or '', 'python3')
	if 'sysconfig' in sys.modules:  # default arguments of its functions depend on the prefix
		importlib.reload(sys.modules['sysconfig'])


def settle_places(active):
	"""Puts the sandbox's own packages into sys.path; ACTIVE says that there is a virtual environment. Returns
	True if the run needs a bare interpreter."""
	import site
	if holds('', ours_std | ours_site):
		return True
	site.USER_BASE = site.USER_SITE = None
	user = site.ENABLE_USER_SITE and os.path.isdir(site.getusersitepackages())
	if not active and not user:
		return False
	if active and not sees_image():
		return True
	# Check the known folders first: extend_path() executes .pth files, and a bare interpreter would execute
	# them again.
	version = 'python%d.%d' % sys.version_info[:2]
	if active and holds('%s/lib/%s/site-packages' % (VENV, version), ours_site) or \
			user and holds(site.USER_SITE, ours_site):
		return True
	return extend_path(active, user)


def extend_path(active, user):
	import site
	sys.path[:] = above
	known_paths = {site.makepath(path)[1] for path in above if path}
	if active:
		activate(known_paths)
	if user:
		site.addusersitepackages(known_paths)
	found = [path for path in sys.path if path not in above]
	sys.path += [path for path in below if path not in sys.path]
	return any(holds(path, ours_site) for path in found)


def in_environment(env):
	return b'VIRTUAL_ENV=' + VENV.encode() in env.split(b'\0') and os.path.isfile(VENV + '/pyvenv.cfg')


def join_environment():
	"""For a session that began before its sandbox had an environment. As in a notebook, modules that it has
	imported stay."""
	import site
	os.environ['VIRTUAL_ENV'] = VENV
	os.environ['PATH'] = VENV + '/bin:' + os.environ.get('PATH', os.defpath)
	at = sys.path.index(below[0]) if below and below[0] in sys.path else len(sys.path)
	after = sys.path[at:]
	del sys.path[at:]
	activate({site.makepath(path)[1] for path in sys.path if path})
	sys.path += [path for path in after if path not in sys.path]


def start_bare(source, channel, result, display):
	"""Becomes a cold run or, with the descriptors of a stateful run, an interpreter that can hold a state: see
	hold(). Without a RESULT, SOURCE is what revive() reads."""
	text = bare_text(PARTS, display, notebook)
	if channel >= 0:
		copy = os.memfd_create('extension', 0)
		os.write(copy, extension_bytes)
		os.dup2(copy, EXTENSION_COPY_FD)
		text = own_text[:own_text.rindex('[')] + '["hold"](%d, %d, %d, %d)\n' % (channel, result, display, notebook)
		os.set_inheritable(channel, True)
		if result >= 0:
			os.set_inheritable(result, True)
	elif notebook:
		os.dup2(result, COLD_RESULT_FD)
	for number in _signal.SIGPIPE, _signal.SIGXFSZ:  # an ignored signal would stay ignored after execve
		_signal.signal(number, _signal.SIG_DFL)
	os.dup2(source, BARE_FD)
	os.execve(program, ['python3', '-c', text], os.environ)
