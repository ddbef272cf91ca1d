#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""embed.py OUT.h bare.py boot.py display.py hooks.py notebook.py LATER.py ... -- MORE.py ... -- FILE.py ... - writes the command-line texts
of cold runs and of a zygote, and files of the skeleton, as C strings. LATER are the texts that a run with RT_NOTEBOOK
executes when it needs them.

Comments, docstrings and blank lines are removed, so that the kernel copies and the interpreter compiles
little. LATER and the text of a zygote, which has all the others, are compressed: an argument may have 128 KiB. A text puts one name into __main__ and removes it before submitted code starts."""
import ast
import binascii
import os
import re
import sys
import zlib

ZYGOTE = '''_caisson = {'__name__': 'caisson', 'unpack': lambda text: __import__('zlib').decompress(__import__('binascii').a2b_base64(text)).decode()}
exec(_caisson['unpack'](%r), _caisson)
exec(''.join(_caisson['PARTS'][:3]) + _caisson['unpack'](_caisson['PARTS'][3]) + _caisson.pop('MORE'), _caisson)
globals().pop('_caisson')['start']()
'''


ARG_MAX = (128 << 10) - 1024  # MAX_ARG_STRLEN of execve(2), and what start_bare() adds


def strip(text):
	tree = ast.parse(text)
	for node in ast.walk(tree):
		body = getattr(node, 'body', None)
		if isinstance(body, list) and body and isinstance(body[0], ast.Expr) \
				and isinstance(body[0].value, ast.Constant) and isinstance(body[0].value.value, str):
			del body[0]
			if not body:
				body.append(ast.Pass())
	# one blank for each level: a command line has at most 128 KiB; only strings have letters beyond ASCII
	text = re.sub('^(?: {4})+', lambda found: ' ' * (len(found[0]) // 4), ast.unparse(tree), flags=re.M)
	assert ast.dump(ast.parse(text)) == ast.dump(tree), 'a string of more than one line'
	return text.encode('ascii', 'backslashreplace').decode() + '\n'


def script(path):
	"""JavaScript without lines that are comments. Lines of code stay as they are."""
	with open(path, encoding='ascii') as f:
		return ''.join(line.lstrip('\t') if '`' not in line else line for line in f if line.strip() and not line.lstrip().startswith('//'))


def c_string(text):
	out = []
	for line in text.encode('ascii').splitlines(keepends=True):
		quoted = line.decode().replace('\\', '\\\\').replace('"', '\\"').replace('\n', '\\n').replace('??', '?\\?')
		out.append('\t"' + quoted.replace('\t', '\\t') + '"')
	return '\n'.join(out)


def pack(text):
	return binascii.b2a_base64(zlib.compress(text.encode('ascii'), 9), newline=False).decode()


def constant(name, text):
	return 'static const char %s[] __attribute__((unused)) =\n%s;\n' % (name, c_string(text))


def refuse_doubles(texts):
	"""The parts share one dictionary: a function of the same name would take the place of the first one."""
	seen = set()
	for node in ast.parse('\n'.join(texts)).body:
		name = getattr(node, 'name', None)
		assert name is None or name not in seen, 'two parts have ' + name
		seen.add(name)


def main(out, bare, *sources):
	def stripped(path):
		with open(path, encoding='ascii') as f:
			return strip(f.read())
	cut, end = (i for i, word in enumerate(sources) if word == '--')
	boot, display, hooks, notebook, *later = [stripped(path) for path in sources[:cut]]
	more = [stripped(bare)] + [stripped(path) for path in sources[cut + 1:end]]
	refuse_doubles([boot, display, hooks, notebook, *later, *more])
	later = '\n'.join(later)
	parts = boot, display + hooks, notebook, pack(later)
	space = {}
	exec(more[0], space)
	with open(out, 'w', encoding='ascii') as f:
		f.write('/* Made by runtime/embed.py. */\n#pragma once\n\n')
		for name, display, notebook in ('boot', False, False), ('display', True, False), \
				('notebook', False, True), ('notebook_display', True, True):
			text = space['bare_text'](parts, display, notebook)
			assert len(text) < ARG_MAX, 'the kernel takes no longer argument'
			f.write(constant('runtime_%s_text' % name, text))
		zygote = ZYGOTE % pack('PARTS, MORE = %r, %r' % (parts, '\n'.join(more)))
		f.write(constant('runtime_zygote_text', zygote))
		for path in sources[end + 1:]:
			name = os.path.basename(path).partition('.')[0]
			text = script(path) if path.endswith('.js') else stripped(path)
			f.write(constant('runtime_%s%s_text' % ('node_' if path.endswith('.js') else '', name), text))


if __name__ == '__main__':
	main(*sys.argv[1:])
