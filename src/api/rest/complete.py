# SPDX-License-Identifier: Apache-2.0
# Completes a name in the live session, without running its code: no property, no __getattr__, no __dir__. The server calls
# it with the session's names and the text before the cursor; the one JSON object on stdout is not trusted.
def complete(space, text):
	import sys
	# A keyword.py in the workspace is not ours, and would run.
	path, sys.path = sys.path, [p for p in sys.path if p[:1] == '/' and not p.startswith(('/mnt/data', '/tmp', '/home/sandbox'))]
	try:
		import builtins
		import json
		import keyword
		import os
		import re
		import types
	finally:
		sys.path = path

	def members(obj):
		"""Names and values of OBJ by its dictionaries alone."""
		found = {}
		owner = obj if isinstance(obj, type) else type(obj)
		for base in reversed(type.__dict__['__mro__'].__get__(owner)):
			found.update(type.__dict__['__dict__'].__get__(base))
		own = None
		if isinstance(obj, types.ModuleType):
			own = types.ModuleType.__getattribute__(obj, '__dict__')
		elif not isinstance(obj, type) and not isinstance(found.get('__dict__'), property):
			try:
				own = object.__getattribute__(obj, '__dict__')
			except AttributeError:
				pass
		if type(own) is dict:
			found.update(own)
		return found

	def kind(value):
		if isinstance(value, type):
			return 'class'
		if isinstance(value, types.ModuleType):
			return 'module'
		if isinstance(value, (types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.MethodDescriptorType,
			types.WrapperDescriptorType, classmethod, staticmethod)):
			return 'function'
		return 'property' if isinstance(value, (property, types.GetSetDescriptorType, types.MemberDescriptorType)) else 'variable'

	def columns(obj):
		"""Column names of a table, which the library itself tells; a class of the session's own is left alone."""
		for module, kind in ('pandas', 'DataFrame'), ('polars', 'DataFrame'):
			if type(obj) is getattr(sys.modules.get(module), kind, ()):
				return [c for c in list(obj.columns)[:1000] if type(c) is str]
		return []

	def find(chain):
		"""(whether there is such an object, it); what would run code to be read is not there."""
		here = None
		for i, part in enumerate(chain.split('.')):
			all_names = members(here) if i else {**vars(builtins), **space}
			if part not in all_names:
				return False, None
			here = all_names[part]
			if isinstance(here, (property, staticmethod, classmethod, types.GetSetDescriptorType, types.MemberDescriptorType)):
				return False, None
		return True, here

	def modules(parents):
		"""Modules in the package PARENTS, or those that can be imported first, by the names of their files."""
		found = {} if parents else dict.fromkeys((*getattr(sys, 'stdlib_module_names', ()), *sys.builtin_module_names), 'module')
		for folder in path[:100]:
			try:
				with os.scandir(os.path.join(folder or '.', *parents)) as entries:
					for _, e in zip(range(5000), entries):
						is_package = '.' not in e.name and e.is_dir()
						name = e.name if is_package else e.name.partition('.')[0] if e.name.endswith(('.py', '.so')) else ''
						if name.isidentifier() and name != '__pycache__':
							found[name] = 'module'
			except (OSError, TypeError, ValueError):
				pass
		return found

	def answer(prefix, items, hidden):
		shown = sorted((k for k in items if k.startswith(prefix) and (hidden or not k.startswith('_'))), key=lambda k: (k.lower(), k))
		rows = [{'label': k, 'type': items[k]} for k in shown[:200] if len(k) <= 100]
		sys.__stdout__.write(json.dumps({'prefix': len(prefix), 'items': rows}))
		sys.__stdout__.flush()

	key = re.search(r'(?<![\w.])([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)\[\s*(?:\[(?:[^\[\]]*,)?\s*)?(["\'])([^"\']*)$', text)
	if key:
		found, here = find(key.group(1))
		answer(key.group(3), dict.fromkeys(columns(here), 'property') if found else {}, True)
		return
	line = text[text.rfind('\n') + 1:]
	imported = re.match(r'\s*(?:import\s+(?:[^\W\d][\w. ]*,\s*)*|from\s+)((?:[^\W\d]\w*\.)*)(\w*)$', line)
	if imported:
		answer(imported.group(2), modules(imported.group(1).split('.')[:-1]), imported.group(2).startswith('_'))
		return
	taken = re.match(r'\s*from\s+([^\W\d][\w.]*)\s+import\s+\(?\s*(?:[^\W\d][\w ]*,\s*)*(\w*)$', line)
	if taken:
		module = sys.modules.get(taken.group(1))
		items = modules(taken.group(1).split('.'))
		if type(module) is types.ModuleType:
			items.update((k, kind(v)) for k, v in members(module).items() if type(k) is str)
		answer(taken.group(2), items, taken.group(2).startswith('_'))
		return
	name = re.search(r'(?:(?<![\w.])([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)\.)?([A-Za-z_]\w*)?$', text)
	chain, prefix = name.group(1), name.group(2) or ''
	items = {}
	if chain:
		found, here = find(chain)
		if found:
			items = {k: kind(v) for k, v in members(here).items() if type(k) is str}
			items.update((c, 'property') for c in columns(here) if c.isidentifier())
	elif prefix:
		items = {k: 'keyword' for k in keyword.kwlist}
		items.update((k, kind(v)) for k, v in vars(builtins).items())
		items.update((k, kind(v)) for k, v in list(space.items()) if type(k) is str)
	answer(prefix, items, prefix.startswith('_'))
