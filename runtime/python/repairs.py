# SPDX-License-Identifier: Apache-2.0
"""Code that is no Python as it was sent, and is Python after a change that loses nothing: fences of Markdown, prompts, written line
ends, entities of HTML, indentation of all lines, typographic characters.

The compiler has refused the code before this file is asked, and a change is taken only if the compiler then takes the code. Line
numbers stay right, but for written line ends."""
import re

FENCE = re.compile(r'\s*(?:`{3,}|~{3,})\s*\{?[\w.+-]*\}?\s*')
PROMPT = re.compile(r'(?:>>>|\.\.\.|In ?\[\d*\]:|\s+\.\.\.:)(?: |$)')
FIRST_PROMPT = re.compile(r'\s*(?:>>>|In ?\[\d*\]:)')
NO_PROSE = frozenset('"\'=([{#')
PROSE_LINES, LETTERS_MAX = 3, 500
ESCAPES = {'n': '\n', 't': '\t', 'r': '', '"': '"', "'": "'", '\\': '\\'}
QUOTES = {'"': '\u201c\u201d\u201e\u201f\u2033\xab\xbb\uff02', "'": '\u2018\u2019\u201a\u201b\u2032\uff07'}
LETTERS = {' ': '\xa0\u2002\u2003\u2009\u202f\u3000', '': '\u200b\u200c\u200d\u2060\ufeff\u200e\u200f', '-': '\u2010\u2011\u2012\u2013\u2014\u2212', '*': '\xd7',
	'<=': '\u2264', '>=': '\u2265', '!=': '\u2260', ',': '\uff0c', ':': '\uff1a', ';': '\uff1b', '(': '\uff08', ')': '\uff09', '[': '\u3010', ']': '\u3011', '=': '\uff1d', **QUOTES}
PLAIN = {letter: plain for plain, letters in LETTERS.items() for letter in letters}


def without_fences(text):
	lines = text.split('\n')
	marks = [i for i, line in enumerate(lines) if FENCE.fullmatch(line)]
	if not marks:
		return None
	before = [line for line in lines[:marks[0]] if line.strip()]
	if before and len(marks) == 1:
		return '\n'.join(lines[:marks[0]])  # the closing one alone
	if len(before) > PROSE_LINES or NO_PROSE.intersection(''.join(before)):
		return None  # more likely a text within the program
	inside = False
	for i, line in enumerate(lines):
		if i in marks:
			inside = not inside
		if i in marks or not inside:
			lines[i] = ''
	return '\n'.join(lines)


def without_prompts(text):
	if not FIRST_PROMPT.match(text):
		return None
	lines = []
	for line in text.strip().split('\n'):  # what has no prompt is output
		found = PROMPT.match(line)
		lines.append(line[found.end():] if found else '')
	return '\n'.join(lines)


def unescaped(text):
	return None if '\n' in text.strip() or '\\n' not in text else re.sub(r'\\([ntr"\'\\])', lambda found: ESCAPES[found.group(1)], text)


def without_entities(text):
	import html
	return html.unescape(text) if re.search(r'&(?:lt|gt|amp|quot|#\d+);', text) else None


def dedented(text):
	import textwrap
	return textwrap.dedent(text) if text.lstrip('\n')[:1] in ' \t' else None


def with_plain_letters(text):
	"""Changes only the characters that the compiler refuses, so those in strings stay."""
	for _ in range(LETTERS_MAX):
		try:
			compile(translate(text) or text, '', 'exec', _ast.PyCF_ONLY_AST)
			return text
		except SyntaxError as e:
			if not e.msg.startswith('invalid ') or not e.lineno or not e.offset:
				return None
			lines = text.split('\n')
			line = lines[e.lineno - 1] if e.lineno <= len(lines) else ''
			at = e.offset - 1
			plain = PLAIN.get(line[at:at + 1])
			if plain is None:
				return None
			rest = line[at + 1:]
			for letter in rest if plain in QUOTES else ():
				if letter in QUOTES[plain]:  # the end of this string
					rest = rest.replace(letter, plain, 1)
					break
			lines[e.lineno - 1] = line[:at] + plain + rest
			text = '\n'.join(lines)
	return None


REPAIRS = ((without_fences, 'fences of Markdown (```)'), (without_prompts, 'prompts (>>>)'), (unescaped, 'line ends written as \\n'), (with_plain_letters, 'typographic characters'),
	(dedented, ''), (without_entities, 'entities of HTML (&gt;)'))


def repaired(text):
	"""TEXT as the compiler takes it; None if nothing of this helps."""
	def helps(changed):
		try:
			compile(translate(changed) or changed, '', 'exec', _ast.PyCF_ONLY_AST | 0x2000)  # PyCF_ALLOW_TOP_LEVEL_AWAIT
			return True
		except (SyntaxError, ValueError):
			return False

	for one, what in REPAIRS:
		changed = one(text)
		if changed is not None and helps(changed):
			return repaired_by(changed, [what])
	found = []
	for one, what in REPAIRS:
		changed = one(text)
		if changed is not None and changed != text:
			text = changed
			found.append(what)
			if len(found) > 1 and helps(text):
				return repaired_by(text, found)
	return None


def repaired_by(text, found):
	words = ' and '.join(what for what in found if what)
	if words:
		tell('the code had %s, and ran without.' % words)
	return text
