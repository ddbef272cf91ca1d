# SPDX-License-Identifier: Apache-2.0
"""Puts back what the interpreter, and this code, cannot do without, after a cell has removed it.

Runs in the same dictionary as zygote.py, which calls it when a cell has ended. Without it, a cell that empties
sys.modules or builtins would end the session: no later cell could begin, and the backup is a copy of the same state.
mend_builtins() may use no builtin name, because there may be none."""
import builtins
import weakref

n_builtins = 0  # when the cell began
later_modules = {}  # weak references: a program that drops a module of its own may want its memory back


def mend_builtins(space=builtins.__dict__, first=dict(builtins.__dict__), error=TypeError):
	"""Returns the names that were not there."""
	names = []
	for name in first:
		if name not in space:
			space[name] = first[name]
			names += name,
	try:
		if space['__import__'] is None:
			raise error
	except error:
		space['__import__'] = first['__import__']
		names += '__import__',
	return names


def note_modules():
	"""Those that have come since the last cell; from the end, because a look at all of them would write into their
	reference counts."""
	modules = sys.modules
	for name in reversed(modules):
		if name in known or name in later_modules:
			break
		try:
			later_modules[name] = weakref.ref(modules[name])
		except TypeError:  # programs put other things there, too
			later_modules[name] = lambda: None


def mend_modules():
	modules = sys.modules
	for name, module in known.items():
		modules.setdefault(name, module)
	for name, ref in later_modules.items():
		module = ref()
		if module is not None:
			modules.setdefault(name, module)
	modules['__main__'] = main


def mend_interpreter(space=builtins.__dict__):
	"""Cheap where nothing is missing: every cell ends with this."""
	names = mend_builtins() if space.__len__() < n_builtins or space['__import__'] is None else ()
	gone = sys.modules.get('__main__') is not main
	if gone:
		mend_modules()
	note_modules()
	if not names and not gone:
		return
	what = ['sys.modules'] if gone else []
	what += ['builtins: ' + ', '.join(names[:3]) + (' and others' if len(names) > 3 else '')] if names else []
	try:
		sys.stderr.write('Note: this run has removed %s. The next run has that again.\n' % '; '.join(what))
	except Exception:  # it is closed, or the program's own
		pass
