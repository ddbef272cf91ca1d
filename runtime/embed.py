#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""embed.py boot.py OUT.h - the command-line text of a cold run as a C string.

Comments, docstrings and blank lines go, so that the kernel copies and the interpreter compiles
little. The text leaves one name in __main__ and takes it away before submitted code starts."""
import ast
import sys

FRAME = '''_caisson = {'__name__': 'caisson'}
exec(%r, _caisson)
with _caisson['Guard']():
	exec(*globals().pop('_caisson')['begin']())
'''


def strip(text):
	tree = ast.parse(text)
	for node in ast.walk(tree):
		body = getattr(node, 'body', None)
		if isinstance(body, list) and body and isinstance(body[0], ast.Expr) \
				and isinstance(body[0].value, ast.Constant) and isinstance(body[0].value.value, str):
			del body[0]
			if not body:
				body.append(ast.Pass())
	return ast.unparse(tree) + '\n'


def c_string(text):
	out = []
	for line in text.encode('ascii').splitlines(keepends=True):
		quoted = line.decode().replace('\\', '\\\\').replace('"', '\\"').replace('\n', '\\n')
		out.append('\t"' + quoted.replace('\t', '\\t') + '"')
	return '\n'.join(out)


def main(source, out):
	with open(source, encoding='ascii') as f:
		text = FRAME % strip(f.read())
	with open(out, 'w', encoding='ascii') as f:
		f.write('/* Made by runtime/embed.py from %s. */\n#pragma once\n\n' % source.rsplit('/', 1)[-1])
		f.write('#define RUNTIME_BOOT_SOURCE_FD 3\n\n')
		f.write('static const char runtime_boot_text[] =\n%s;\n' % c_string(text))


if __name__ == '__main__':
	main(*sys.argv[1:])
