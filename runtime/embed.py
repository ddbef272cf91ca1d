#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""embed.py OUT.h boot.py display.py MORE.py ... - writes the command-line texts of a cold run and a zygote as C strings.

Comments, docstrings and blank lines are removed, so that the kernel copies and the interpreter compiles
little. A text puts one name into __main__ and removes it before submitted code starts."""
import ast
import sys

BOOT = '''_caisson = {'__name__': 'caisson'}
exec(%r, _caisson)
with _caisson['Guard']():
	exec(*globals().pop('_caisson')['begin']())
'''
ZYGOTE = '''_caisson = {'__name__': 'caisson', 'BARE': %r, 'BARE_DISPLAY': %r}
exec(%r, _caisson)
globals().pop('_caisson')['start']()
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


def constant(name, text):
	return 'static const char %s[] __attribute__((unused)) =\n%s;\n' % (name, c_string(text))


def main(out, *sources):
	texts = []
	for source in sources:
		with open(source, encoding='ascii') as f:
			texts.append(strip(f.read()))
	with open(out, 'w', encoding='ascii') as f:
		f.write('/* Made by runtime/embed.py. */\n#pragma once\n\n')
		cold = BOOT % texts[0], BOOT % '\n'.join(texts[:2])
		f.write(constant('runtime_boot_text', cold[0]))
		f.write(constant('runtime_display_text', cold[1]))
		f.write(constant('runtime_zygote_text', ZYGOTE % (*cold, '\n'.join(texts))))


if __name__ == '__main__':
	main(*sys.argv[1:])
