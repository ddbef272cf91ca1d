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

	name = re.search(r'(?:(?<![\w.])([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)\.)?([A-Za-z_]\w*)?$', text)
	chain, prefix = name.group(1), name.group(2) or ''
	items = {}
	if chain:
		here = None
		for i, part in enumerate(chain.split('.')):
			all_names = members(here) if i else {**vars(builtins), **space}
			if part not in all_names:
				here, all_names = None, None
				break
			here = all_names[part]
			if isinstance(here, (property, staticmethod, classmethod, types.GetSetDescriptorType, types.MemberDescriptorType)):
				all_names = None
				break
		if all_names is not None:
			items = {k: kind(v) for k, v in members(here).items() if type(k) is str}
	elif prefix:
		items = {k: 'keyword' for k in keyword.kwlist}
		items.update((k, kind(v)) for k, v in vars(builtins).items())
		items.update((k, kind(v)) for k, v in list(space.items()) if type(k) is str)
	shown = sorted((k for k in items if k.startswith(prefix) and (prefix.startswith('_') or not k.startswith('_'))), key=lambda k: (k.lower(), k))
	rows = [{'label': k, 'type': items[k]} for k in shown[:200] if len(k) <= 100]
	sys.__stdout__.write(json.dumps({'prefix': len(prefix), 'items': rows}))
	sys.__stdout__.flush()
