# SPDX-License-Identifier: Apache-2.0
"""Which encoding a text has that is not UTF-8: for the hint of a failed run, for what reads a file and for previews of the page."""
CHARSET_BYTES = 16 << 10

# Windows writes a superset of what the standard names, so the superset reads both.
WIDER = {'ascii': 'cp1252', 'iso8859-1': 'cp1252', 'iso8859-9': 'cp1254', 'gb2312': 'gb18030', 'cp949': 'euc-kr', 'euc_kr': 'euc-kr', 'cp932': 'shift_jis',
	'euc_jp': 'euc-jp', 'iso8859-7': 'cp1253'}
# Letters beyond ASCII that texts have often, as each encoding of European languages in Latin letters writes them. Detectors confuse these.
LATIN = {
	'cp1252': '\xe4\xf6\xfc\xdf\xc4\xd6\xdc\xe9\xe8\xea\xeb\xe0\xe2\xe7\xf9\xfb\xee\xef\xf4\xc9\xc0\xc7\xf1\xd1\xf3\xed\xfa\xe1\xbf\xa1\xe3\xf5\xe5\xf8\xe6\xc5\xd8\xc6\xf2\xec\u2013\u2014\u2019\u2018\u201c\u201d\u20ac\xb0\xa3\xa7',
	'cp1250': '\u0105\u0107\u0119\u0142\u0144\xf3\u015b\u017a\u017c\u0141\u015a\u017b\xe1\u010d\u010f\xe9\u011b\xed\u0148\u0159\u0161\u0165\xfa\u016f\xfd\u017e\u010c\u0160\u017d\u0158\u0151\u0171\xf6\xfc\u0103\xe2\xee\u0219\u015f\u0163\u0111\xe4\u2013\u201e\u201d\u2019',
	'iso8859-2': '\u0105\u0107\u0119\u0142\u0144\xf3\u015b\u017a\u017c\u0141\u015a\u017b\xe1\u010d\u010f\xe9\u011b\xed\u0148\u0159\u0161\u0165\xfa\u016f\xfd\u017e\u010c\u0160\u017d\u0158\u0151\u0171\xf6\xfc\u0103\xe2\xee\u015f\u0163\u0111\xe4',
	'cp1254': '\u0131\u0130\u015f\u015e\u011f\u011e\xe7\xc7\xf6\xd6\xfc\xdc\xe2',
}
LATIN_SURE, GUESS_SURE = 70, 40


def latin_charset(data):
	"""The one whose frequent letters explain most of DATA. Equal ones write the text alike, or nearly so."""
	high = bytes(b for b in data if b > 127)
	return max(LATIN, key=lambda name: sum(high.decode(name, 'replace').count(letter) for letter in LATIN[name]))


def detected(data):
	"""(name, percent) as a detector of the image says it, or None."""
	try:
		import chardet
		found = chardet.detect(data)
		name, sure = found['encoding'], int(100 * found['confidence'])
	except ImportError:
		name, sure = None, 0
	western = name in ('ISO-8859-1', 'Windows-1252', 'Windows-1254', 'ISO-8859-9', 'MacRoman', 'ascii')
	if not western and sure < GUESS_SURE:
		try:
			import charset_normalizer
		except ImportError:
			return (name, sure) if name else None
		best = charset_normalizer.from_bytes(data, cp_isolation=['cp1251', 'cp1256', 'cp932', *LATIN]).best()
		name, sure = best.encoding if best else name, GUESS_SURE
		western = name in (None, 'cp1250', 'cp1252', 'cp1254', 'iso8859_2')
	return (latin_charset(data), min(sure, LATIN_SURE)) if western else (name, sure)


def charset_of(data):
	"""(name for open(), how sure in percent) for DATA, which is not UTF-8; None: nothing here can tell."""
	import codecs
	import warnings
	if data[:2] in (b'\xff\xfe', b'\xfe\xff'):
		return 'utf-16', 100
	lines = b'\n'.join(line for line in data.split(b'\n') if not line.isascii())[:CHARSET_BYTES]
	try:
		with warnings.catch_warnings():
			warnings.simplefilter('ignore')
			found = detected(lines)
		if not found:
			return None
		exact = codecs.lookup(found[0]).name
	except Exception:
		return None
	return WIDER.get(exact, exact), found[1]


def is_utf8(data, cut):
	"""CUT: the last character may be in two."""
	import codecs
	try:
		codecs.getincrementaldecoder('utf-8')().decode(data, not cut)
	except UnicodeDecodeError:
		return False
	return True
