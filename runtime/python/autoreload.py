# SPDX-License-Identifier: Apache-2.0
"""`%autoreload` in a session: before each cell, modules whose files have changed are executed again, and functions and
classes that other names refer to get the new code.

Runs in the dictionary of boot.py, as magics.py does, when a cell asks for it."""
import importlib
import os
import sys
import types

marks = {}  # module: what its file was when it was last executed; empty = off


def mark_of(module):
	try:
		found = os.stat(module.__file__)
		return found.st_mtime_ns, found.st_size
	except (AttributeError, TypeError, OSError):
		return None


def own_modules():
	for name, module in list(sys.modules.items()):
		file = getattr(module, '__file__', None)
		if name != '__main__' and isinstance(file, str) and file.endswith('.py') and not file.startswith(('/usr/', CODE_FOLDER)):
			yield name, module


def mark_modules():
	"""At the end of a cell: modules that it has imported."""
	for name, module in own_modules():
		marks.setdefault(name, mark_of(module))


def renew(old, new):
	if isinstance(old, types.FunctionType) and isinstance(new, types.FunctionType):
		for part in '__code__', '__defaults__', '__kwdefaults__', '__doc__', '__annotations__', '__dict__':
			try:
				setattr(old, part, getattr(new, part))
			except (AttributeError, TypeError, ValueError):  # other free variables
				pass
	elif isinstance(old, type) and isinstance(new, type) and old is not new:
		for name, value in list(vars(new).items()):
			before = vars(old).get(name)
			if isinstance(before, types.FunctionType) and isinstance(value, types.FunctionType):
				renew(before, value)
			elif name not in ('__dict__', '__weakref__', '__module__'):
				try:
					setattr(old, name, value)
				except (AttributeError, TypeError):
					pass


def reload_changed():
	for name, module in own_modules():
		now = mark_of(module)
		if now is None or marks.get(name, now) == now:
			continue
		marks[name] = now
		before = dict(vars(module))
		try:
			importlib.reload(module)
		except Exception as e:
			sys.stderr.write('[autoreload of %s failed: %s: %s]\n' % (name, type(e).__name__, e))
			continue
		for key, old in before.items():
			renew(old, vars(module).get(key))


def autoreload(rest):
	marks.clear()
	if rest.strip() not in ('0', 'off'):
		marks['__main__'] = None  # not empty
		mark_modules()
