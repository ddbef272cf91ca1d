# SPDX-License-Identifier: Apache-2.0
"""The command lines of a cold run. runtime/embed.py makes init's from them, and a warm run that needs a bare
interpreter makes its own."""
BARE = '''_caisson = {'__name__': 'caisson'}
exec(%r, _caisson)
with _caisson['Guard']():
	exec(*globals().pop('_caisson')['begin']())
'''
BARE_NOTEBOOK = '''_caisson = {'__name__': 'caisson'}
exec(%r, _caisson)
with _caisson['Guard']():
	globals().pop('_caisson')['perform_cold']()
'''


def bare_text(parts, display, notebook):
	"""PARTS: the texts boot, display, notebook, and what notebook_later() unpacks and executes."""
	boot, shows, asks, more = parts
	text = boot + (shows if display else '')
	if notebook:
		return BARE_NOTEBOOK % (text + asks + 'later.append(%r)\n' % more)
	return BARE % text
