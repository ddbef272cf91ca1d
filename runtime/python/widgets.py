# SPDX-License-Identifier: Apache-2.0
"""A light ipywidgets where the real one is not installed: there is no page whose reader could move a slider, so a widget is an object with
a value, shown as text. Functions of interact() run once, with the values at the start.

Runs in the dictionary of boot.py, when it is imported."""
LIMITS = {'min': 0, 'max': 100}


class Change(dict):
	"""What observers get: names as keys and as attributes."""
	__getattr__ = dict.get


class Widget:
	"""Every class of widgets is made from this one. Names that were never set are None, as those of a widget's looks are."""
	description, value, children, shown = '', None, (), False

	def __init__(self, *args, **kwargs):
		self.__dict__.update(observers=[], clicks=[])
		if isinstance(self, Progress):
			kwargs.setdefault('value', 0)
		for name, value in kwargs.items():
			setattr(self, name, value)
		if args:
			setattr(self, 'children' if isinstance(args[0], (list, tuple)) else 'value', args[0])
		if self.value is None and kwargs.get('options'):
			first = kwargs['options'][0] if isinstance(kwargs['options'], (list, tuple)) else next(iter(kwargs['options'].values()))
			self.value = first[1] if isinstance(first, tuple) and len(first) == 2 else first

	def __getattr__(self, name):
		if name[:1] == '_':
			raise AttributeError(name)
		return LIMITS.get(name)

	def __setattr__(self, name, value):
		old = getattr(self, name)
		self.__dict__[name] = value
		if old == value:
			return
		if name == 'value':
			self.redraw()
		for function, names in list(self.observers):
			if names is None or name in names:
				function(Change(name=name, old=old, new=value, owner=self, type='change'))

	def redraw(self):
		pass

	def observe(self, handler, names=None, type='change'):
		self.observers.append((handler, None if names is None or names == 'All' else [names] if isinstance(names, str) else names))

	def unobserve(self, handler, names=None, type='change'):
		self.observers[:] = [one for one in self.observers if one[0] is not handler]

	def unobserve_all(self, name=None):
		self.observers.clear()

	def on_click(self, callback, remove=False):
		self.clicks.append(callback)

	on_submit = on_click

	def click(self):
		for callback in list(self.clicks):
			callback(self)

	def close(self, *args):
		pass

	open = close

	def __repr__(self):
		if self.children:
			return '\n'.join(map(repr, self.children))
		parts = ['%s=%r' % (name, getattr(self, name)) for name in ('description', 'value') if getattr(self, name) not in (None, '')]
		return '%s(%s)' % (type(self).__name__, ', '.join(parts))

	def _repr_mimebundle_(self, include=None, exclude=None):
		self.show_all()
		return {'text/plain': repr(self)}

	def show_all(self):
		self.shown = True
		for child in self.children:
			if isinstance(child, Widget):
				child.show_all()


class Progress(Widget):
	def redraw(self):
		"""Writes over its own line, as bars of text do."""
		if self.shown and isinstance(self.value, (int, float)):
			done = self.value >= (self.max or 0)
			sys.stdout.write('\r%s%g/%g%s' % (self.description and self.description + ' ', self.value, self.max or 0, '\n' if done else ''))


class Output(Widget):
	def __enter__(self):
		return self

	def __exit__(self, *error):
		return False

	def capture(self, *args, **kwargs):
		return lambda function: function

	def clear_output(self, *args, **kwargs):
		pass

	def append_stdout(self, text):
		sys.stdout.write(text)

	def append_display_data(self, value):
		display(value)


def first_value(given):
	"""The value that interact() would begin with."""
	if isinstance(given, Widget):
		return given.value
	if isinstance(given, bool) or isinstance(given, (int, float, str)):
		return given
	if isinstance(given, tuple) and len(given) in (2, 3) and all(isinstance(one, (int, float)) for one in given):
		return (given[0] + given[1]) // 2 if all(isinstance(one, int) for one in given) else (given[0] + given[1]) / 2
	if isinstance(given, dict):
		return next(iter(given.values()), None)
	return next(iter(given), None) if hasattr(given, '__iter__') else getattr(given, 'value', given)


def interact(function=None, **given):
	if function is None:
		return lambda function: interact(function, **given)
	import inspect
	for name, parameter in inspect.signature(function).parameters.items():
		if name in given:
			given[name] = first_value(given[name]) if parameter.default is parameter.empty else parameter.default
		elif parameter.default is not parameter.empty:
			given[name] = first_value(parameter.default)
	value = function(**{name: first_value(one) for name, one in given.items()})
	if value is not None:
		display(value)
	return function


def light_widgets(space):
	kinds = {}

	def kind(name):
		if not name[:1].isupper() or name == 'FloatProgress' and sys._getframe(1).f_globals.get('__name__') == 'tqdm.notebook':
			raise AttributeError(name)  # tqdm then writes its bars as text
		if name not in kinds:
			kinds[name] = type(name, (Progress if name.endswith('Progress') else Widget,), {'__module__': 'ipywidgets'})
		return kinds[name]

	space.update(
		__getattr__=kind, Widget=Widget, DOMWidget=Widget, Output=Output, interact=interact, interactive=lambda function, **given: interact(function, **given) and Widget(),
		interact_manual=interact, fixed=lambda value: Widget(value=value), interactive_output=lambda function, controls: interact(function, **controls) and Widget(),
		link=lambda *ends: None, dlink=lambda *ends: None, jslink=lambda *ends: None, jsdlink=lambda *ends: None, __version__='8.0.0')
