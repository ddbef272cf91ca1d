# SPDX-License-Identifier: Apache-2.0
"""`pip install`, `uv pip install` and their like, before the real program. A file of the skeleton: the commands pip, pip3 and uv of the
sandbox execute it as a program, and pip/__main__.py executes its text.

What is here already is said at once, with or without a network. Wheels and folders of the sandbox go to the real pip, which then asks no
index. For the rest, a sandbox that cannot ask the index names the tool that can."""
import os
import re
import sys

TOOL = '<tool>'  # the build of a sandbox puts the sentence about the tool that installs packages here
HINT = 'this sandbox has no network. ' + TOOL
THERE = 'the package index cannot be asked from this sandbox. ' + TOOL
INSTALL = frozenset(('install', 'download', 'wheel', 'lock', 'sync', 'add'))
OTHERS = frozenset('''uninstall freeze inspect list show check config search cache index hash completion debug help run venv python init
	export build publish self version tree remove'''.split())
WITH_VALUE = frozenset('''-r --requirement -c --constraint -e --editable -t --target -i --index-url --extra-index-url -f --find-links --platform
	--python-version --implementation --abi --root --prefix --src --progress-bar --proxy --retries --timeout --exists-action --trusted-host
	--cert --client-cert --cache-dir --log --no-binary --only-binary -C --config-settings --global-option --report -p --python -o --override
	--default-index --index --upgrade-strategy --use-feature --root-user-action'''.split())
ELSEWHERE = ('-t', '--target', '--prefix', '--root', '--force-reinstall', '--platform', '-e', '--editable', '-p', '--python', '--reinstall')
NESTED_MAX, LINES_MAX = 8, 5000  # files of requirements that name others, and their lines
# What a mere name on the index stands for, and another build of the same modules.
SAME = {'opencv-python': 'opencv-python-headless', 'bs4': 'beautifulsoup4', 'sklearn': 'scikit-learn', 'pil': 'pillow', 'yaml': 'pyyaml', 'cv2': 'opencv-python-headless',
	'skimage': 'scikit-image', 'docx': 'python-docx', 'pptx': 'python-pptx', 'dateutil': 'python-dateutil', 'matplotlib-base': 'matplotlib'}
STRAY = re.compile(r'[=~!]?=\d[\w.*+!,<>=~]*|\d[\w.*+!,]*|=')
VERSION = re.compile(r'\d[\w.*+!]*')
OPERATOR = re.compile(r'(?:[<>~!]=?|===?)$')
ASKS = frozenset(('index', 'search'))  # these do nothing but ask the index


def command_of(words):
	"""The first word that is a command: words before it are options and their values."""
	return next((word for word in words if word in INSTALL or word in OTHERS), None)


def stray_specifiers():
	"""In `pip install a>=2`, the shell takes >=2 for a redirection: the version is lost and there is an empty file '=2'. Removes such
	files, and returns the specifiers in the order of their files."""
	found = []
	try:
		out = os.readlink('/proc/self/fd/1')
		if STRAY.fullmatch(os.path.basename(out)) and os.path.dirname(out) == os.getcwd():
			# Several redirections leave a file each. They were made just before this process.
			last = os.stat(out).st_ctime
			for name in os.listdir():
				state = os.lstat(name)
				if name[0] in '=~!' and STRAY.fullmatch(name) and state.st_size == 0 and last - 1 < state.st_ctime <= last:
					found.append((state.st_ctime_ns, name))
			if not found and os.stat(out).st_size == 0:
				found.append((0, os.path.basename(out)))
			for when, name in found:
				os.unlink(name)
			os.dup2(2, 1)
	except OSError:
		pass
	return ['>' + name.strip(',') for when, name in sorted(found)]


def joined(named, stray):
	"""The requirements, if `a >= 2` was written with blanks: the shell took > and the file '=', and left a version alone. `a == 2` it left in three words."""
	found = []
	for word in named:
		if found and not VERSION.fullmatch(found[-1]) and (OPERATOR.match(word) and OPERATOR.fullmatch(word) or VERSION.fullmatch(word) and (OPERATOR.search(found[-1]) or '>=' in stray)):
			found[-1] += ('' if OPERATOR.search(found[-1]) or OPERATOR.fullmatch(word) else '>=') + word
		else:
			found.append(word)
	return found


def split(words):
	"""(options with their values, requirements, files of requirements) of the words behind the command."""
	options, named, files = [], [], []
	rest = iter(words)
	for word in rest:
		if word[:1] != '-':
			named.append(word)
			continue
		option, equals, value = word.partition('=')
		if not equals and word in WITH_VALUE:
			value = next(rest, '')
		elif word[:2] == '-r' and len(word) > 2 and word[2] != '-':
			option, value = '-r', word[2:]
		if option in ('-r', '--requirement'):
			files.append(value)
		else:
			options.append((option, value))
	return options, named, files


def lines_of(path, depth=0):
	"""The requirements of a file; None if it has what only pip understands."""
	if depth > NESTED_MAX:
		return None
	found = []
	with open(path, encoding='utf-8-sig') as f:
		text = f.read(1 << 20).replace('\\\n', ' ')
	for line in text.splitlines()[:LINES_MAX]:
		line = re.sub(r'(^|\s)#.*', '', line).strip()
		nested = re.match(r'(?:-r|--requirement)[ =]*(\S+)$', line)
		if nested:
			inner = lines_of(os.path.join(os.path.dirname(path), nested.group(1)), depth + 1)
			if inner is None:
				return None
			found += inner
		elif line[:1] == '-':
			return None
		elif line:
			found.append(re.sub(r'\s+--hash=\S+', '', line))
	return found


def is_local(word):
	return '://' not in word and (word.endswith(('.whl', '.tar.gz', '.zip')) or word[:1] in './' or os.path.isdir(word) and os.sep in word) and os.path.exists(
		re.sub(r'\[[^\]]*\]$', '', word))


def distribution(name):
	from importlib import metadata
	for one in (name, SAME.get(name.lower().replace('_', '-'))):
		try:
			if one:
				return metadata.distribution(one)
		except (metadata.PackageNotFoundError, ValueError):
			pass
	return None


def here(text, extra='', depth=0):
	"""The line that says where a requirement is satisfied, '' if its marker says that it is not needed here, None if it is not satisfied."""
	try:
		from packaging.requirements import Requirement
	except ImportError:
		from pip._vendor.packaging.requirements import Requirement
	try:
		wanted = Requirement(text)
	except ValueError:
		return None
	if wanted.url or wanted.marker and not wanted.marker.evaluate({'extra': extra}):
		return None if wanted.url else ''
	found = distribution(wanted.name)
	if found is None:
		if wanted.name in sys.stdlib_module_names and wanted.name.islower():
			return 'Requirement already satisfied: %s is a part of Python' % wanted.name
		return None
	version = re.sub(r'\+dfsg.*', '', found.version)  # Debian's mark of a changed source is no part of the version
	if not wanted.specifier.contains(version, prereleases=True):
		return None
	if depth < NESTED_MAX:
		for one in wanted.extras:
			for need in found.requires or ():
				if 'extra' in need and here(need, one, depth + 1) is None:
					return None
	return 'Requirement already satisfied: %s in %s (%s)' % (text, os.path.dirname(str(getattr(found, '_path', ''))), found.version)


def why_not(names):
	"""Why the index cannot be asked; None if it can. NAMES: the options."""
	if names & {'--no-index', '--offline'}:
		return None
	if not os.environ.get('HTTPS_PROXY'):
		return HINT
	if os.environ.get('CAISSON_PACKAGES') == 'tool' and not os.environ.get('PIP_INDEX_URL') and not names & {'-i', '--index-url', '--default-index'}:
		return THERE
	return None


def own_environment(me):
	"""uv works on a virtual environment of the program, where there is one. What this Python has is not there."""
	if me != 'uv':
		return False
	at = os.getcwd()
	while True:
		if os.path.exists(os.path.join(at, '.venv/pyvenv.cfg')):
			return True
		if at == '/':
			return os.environ.get('VIRTUAL_ENV', sys.prefix) != sys.prefix or bool(os.environ.get('CONDA_PREFIX'))
		at = os.path.dirname(at)


def real(me, words):
	"""Runs the real program, and returns its exit status."""
	import subprocess
	sys.stdout.flush()
	env = dict(os.environ, CAISSON_INSTALLER='done')
	return subprocess.call(['uv'] + words if me == 'uv' else [sys.executable, '-m', 'pip'] + words, env=env)


def look(requirements):
	"""(lines about those that are here, the others)."""
	told, missing = [], []
	for one in requirements:
		line = None if is_local(one) else here(one)
		if line is None:
			missing.append(one)
		elif line:
			told.append(line)
	return told, missing


def install(me, words):
	"""Returns an exit status, or None and the words with which the real program is to go on."""
	stray = stray_specifiers()
	at = words.index(command_of(words))
	options, named, files = split(words[at + 1:])
	names = {option for option, value in options}
	whole = joined(named, stray)
	if whole != named:
		named = whole
		words = words[:at + 1] + [word for option in options for word in option if word] + named + [word for file in files for word in ('-r', file)]
	elif stray and len(stray) == len(named):
		named = [name + version for name, version in zip(named, stray)]
		words = words[:at + 1] + [word for option in options for word in option if word] + named + [word for file in files for word in ('-r', file)]
	elif stray:
		sys.stderr.write('%s: the shell took %s for files: write such a requirement in quotes.\n' % (me, ' '.join(stray)))
	for file in files:
		if not os.path.exists(file) and '://' not in file:
			sys.stderr.write('%s: there is no file %s in %s.\n' % (me, file, os.getcwd()))
			return 1, words
	reason = why_not(names)
	upgrade = not names.isdisjoint(('-U', '--upgrade'))
	told, missing = [], named
	if words[at] == 'install' and names.isdisjoint(ELSEWHERE) and not own_environment(me) and (reason or not upgrade):
		try:
			told, missing = look(named + [line for file in files for line in lines_of(file)])
		except (OSError, TypeError, ValueError):  # of requirements that only pip understands
			missing = named or files
		if (named or files) and not missing:
			if names.isdisjoint(('-q', '--quiet', '-qq', '-qqq')):
				print('\n'.join(told))
				if upgrade:
					print('Whether there are newer versions cannot be asked from here.')
			return 0, words
	if not reason:
		return None, words
	if any(is_local(word) for word in missing) or not names.isdisjoint(('-f', '--find-links', '-e', '--editable')):
		status = real(me, words + ['--offline' if me == 'uv' else '--no-index'])
		if status:
			sys.stderr.write('%s: the files of this sandbox are not enough: %s\n' % (me, reason))
		return status, words
	sys.stderr.write('%s: %s%s\n' % (me, ', '.join(missing)[:400] + ': ' if told else '', reason))
	sys.stderr.write(''.join(map(other_version, missing[:20])))
	return 1, words


def other_version(text):
	"""A line that says which version of a package is here, if another one was asked for; often that one will do."""
	found = re.match(r'([A-Za-z][\w.-]*)\s*(?:\[[^]]*\])?\s*([<>=~!].*)', text)
	one = distribution(found.group(1)) if found else None
	return '%s %s is installed here, and does not satisfy %s.\n' % (found.group(1), one.version, found.group(2)) if one else ''


def main(me, words):
	command = command_of(words)
	if command in ('install', 'uninstall'):
		os.environ.setdefault('PIP_BREAK_SYSTEM_PACKAGES', '1')  # the root is read-only, so pip can only break the user's own packages
	if command in INSTALL and os.environ.pop('CAISSON_INSTALLER', '') != 'done':
		status, words = install(me, words)
		if status is not None:
			return status
	elif command in ASKS and why_not(set(words)):
		sys.stderr.write('%s: %s\n' % (me, why_not(set(words))))
		return 1
	elif me != 'uv':
		import signal
		signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `pip list | head` ends as other programs do
	if me == 'uv':
		return real(me, words)
	sys.argv[1:] = words
	from pip._internal.cli.main import main as pip
	return pip()


if __name__ == '__main__':
	sys.path.pop(0)
	sys.exit(main(sys.argv[1], sys.argv[2:]))
