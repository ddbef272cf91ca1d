# SPDX-License-Identifier: Apache-2.0
"""What libraries do differently in a run that saves figures: the part of display.py that knows them. A row of `hooks` names
a module, and the function that gets it when it has been imported, so a run pays only for what it imports.

No function here may raise: Finder and watch() then leave the library as it is."""

SHEETS_LOOKED, SHEET_BYTES = 5, 256 << 10
HTML_LOOKED = 1 << 20  # bytes of a page
PDF_ORDER = ('reportlab draws Arabic and Hebrew as they are stored: letters apart, from left to right. Use get_display(arabic_reshaper.reshape(line)) for each line '
         '(import arabic_reshaper; from bidi.algorithm import get_display), and a font with the letters')
PDF_REGISTER = ': pdfmetrics.registerFont(TTFont("DejaVu", "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf"))'

DOLLARS = ' matplotlib reads what stands between two $ as mathematics: write \\$ for a dollar sign.'
DOLLARS_CHARS = 80  # of a text that is repeated
# Families of other systems. A program that names a file of one of them means "some font of this kind".
FONTS_ELSEWHERE = '''arial helvetica times cour courier verdana tahoma georgia calibri cambria consola segoe seguiemj impact comic trebuc roboto opensans lato montserrat
	inter ubuntu liberation free noto droid source simhei simsun simkai kaiti msyh msjh pingfang stheiti stsong hiragino yugoth meiryo msgothic msmincho malgun
	gulim batang nanum wqy applecoloremoji applegothic applesd menlo monaco lucida palatino garamond dejavu vera symbola mangal nirmala latha arphic uming ukai ipa takao
	vlgothic sfpro sfns opensymbol nimbus luxi century bookman franklin futura gothic'''.split()
SERIF, MONO, BOLD = 'times serif georgia cambria simsun song mincho batang palatino garamond century bookman', 'cour mono consol menlo monaco', 'bold black heavy impact'
FONTS_HERE = '/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf', '/usr/share/fonts/truetype/wqy/*.ttc', '/usr/share/fonts/truetype/noto/*.ttf', '/usr/share/fonts/*type/unifont/*.?tf'


def look_at(pyplot):
	"""Sets the hooks; called when pyplot has been imported."""
	import functools
	import weakref
	bases = sys.modules['matplotlib.backend_bases']
	drawn['saved'], drawn['shown'], drawn['now'] = weakref.WeakSet(), weakref.WeakKeyDictionary(), weakref.WeakSet()
	original = pyplot.show

	@functools.wraps(original)
	def show(*args, **kwargs):
		value = original(*args, **kwargs)
		picture(lambda: [(figure, 'figure') for figure in figures(False)])
		return value

	bases.FigureCanvasBase.print_figure = Reached(bases.FigureCanvasBase.print_figure)
	pyplot.show = show


def look_at_plotly(io):
	"""plotly.io has been imported. What its own show() does needs a browser."""
	def show(fig, renderer=None, validate=True, **kwargs):
		if isinstance(fig, dict):
			from plotly.graph_objects import Figure
			fig = Figure(fig)
		picture(lambda: [(fig, 'page')])
	io.show = show


def look_at_viewers(show):
	"""PIL.ImageShow has been imported: Image.show() starts a program of a desktop, which is not here."""
	def show_image(image, title=None, **options):
		picture(lambda: [(image, 'picture')])
		return True
	show.show = show_image


def look_at_pictures(module):
	"""PIL.Image has been imported: a client that takes records sees what is saved under a name, too."""
	if not errors_are_records:
		hooks['PIL.Image'] = look_at_pictures  # a later run of the session may have such a client
		return
	original = module.Image.save

	def save(self, fp, format=None, **params):
		original(self, fp, format, **params)
		if errors_are_records and isinstance(fp, (str, os.PathLike)):
			picture(lambda: [(self, 'picture')])

	import os
	save.__doc__ = original.__doc__
	module.Image.save = save


def look_at_fonts(module):
	"""The font that Pillow uses if none is given has the letters of English alone, and boxes for all others. A text with
	others takes the first font of the image that has all its letters. If none has, each letter takes the first that has it: Pillow itself
	draws a text in one font."""
	import functools
	from PIL import Image
	original = module.load_default

	class FreeTypeFont(module.FreeTypeFont):
		def of(self, text):
			if not isinstance(text, str) or text.isascii():
				return super()
			path = best_font(self.font_bytes, frozenset(text))
			if path is None:
				return Mixed(self, super(), text)
			return self.other(path) if path else super()

		def other(self, path):
			others = self.__dict__.setdefault('others', {})
			if path not in others:
				others[path] = module.FreeTypeFont(path, self.size)  # with Raqm, which Arabic and Hindi need
			return others[path]

		def getlength(self, text, *args, **kwargs):
			return self.of(text).getlength(text, *args, **kwargs)

		def getbbox(self, text, *args, **kwargs):
			return self.of(text).getbbox(text, *args, **kwargs)

		def getmask2(self, text, *args, **kwargs):
			return self.of(text).getmask2(text, *args, **kwargs)

		def font_variant(self, font=None, *args, **kwargs):
			found = super().font_variant(font, *args, **kwargs)
			if font is None:
				found.__class__ = type(self)
			return found

		def __reduce__(self):
			return module.load_default, (self.size,)

	FreeTypeFont.__module__, FreeTypeFont.__qualname__ = module.__name__, 'FreeTypeFont'

	class Mixed:
		"""A text in several fonts: each part is drawn by its own, on one line."""
		def __init__(self, font, plain, text):
			own = font.font_bytes if type(font) is FreeTypeFont else font.path
			self.ascent, self.descent = font.getmetrics()
			self.parts = [(plain if path in ('', own) else font.other(path), piece) for path, piece in runs_of(own, text)]

		def getlength(self, text, *args, **kwargs):
			return sum(font.getlength(piece, *args, **kwargs) for font, piece in self.parts)

		def getbbox(self, *args, **kwargs):
			(width, height), (left, top) = self.getmask2(*args, **kwargs)[0].size, self.getmask2(*args, **kwargs)[1]
			return left, top, left + width, top + height

		def getmask2(self, text, mode='', direction=None, features=None, language=None, stroke_width=0, anchor=None, ink=0, start=None, *args, **kwargs):
			across, drawn = 0, []
			for font, piece in self.parts:
				mask, (left, top) = font.getmask2(piece, mode, direction, features, language, stroke_width, 'ls', ink, *args, **kwargs)
				drawn.append((mask, round(across) + left, top))
				across += font.getlength(piece, mode, direction, features, language)
			drawn = [one for one in drawn if one[0].size[0] and one[0].size[1]]
			if not drawn:
				return self.parts[0][0].getmask2('', mode)
			x, y = min(left for mask, left, top in drawn), min(top for mask, left, top in drawn)
			width, height = max(left + mask.size[0] for mask, left, top in drawn) - x, max(top + mask.size[1] for mask, left, top in drawn) - y
			whole = Image.core.fill(drawn[0][0].mode, (width, height), 0)
			for mask, left, top in drawn:
				whole.paste(mask, (left - x, top - y, left - x + mask.size[0], top - y + mask.size[1]), mask)
			anchor = anchor or 'la'
			right = {'l': 0, 'm': across / 2, 'r': across}[anchor[0]]
			down = {'a': self.ascent, 't': -y, 'm': (self.ascent - self.descent) / 2, 's': 0, 'b': -y - height, 'd': -self.descent}[anchor[1]]
			shift = start or (0, 0)
			return whole, (round(x - right + shift[0] % 1), round(y + down + shift[1] % 1))

	class SystemFont(FreeTypeFont):
		"""A font of the image, which has not all letters either."""
		def of(self, text):
			if not isinstance(text, str) or text.isascii():
				return super(FreeTypeFont, self)
			path = best_font(self.path, frozenset(text))
			if path is None:
				return Mixed(self, super(FreeTypeFont, self), text)
			return self.other(path) if path and path != self.path else super(FreeTypeFont, self)

		def __reduce__(self):
			return module.truetype, (self.path, self.size, self.index, self.encoding, self.layout_engine)

	SystemFont.__module__, SystemFont.__qualname__ = module.__name__, 'FreeTypeFont'
	open_font = module.truetype

	@functools.wraps(open_font)
	def truetype(font=None, size=10, *args, **kwargs):
		try:
			found = open_font(font, size, *args, **kwargs)
		except OSError:
			path = font_for(font)
			if not path:
				raise
			found = open_font(path, size)
		if type(found) is module.FreeTypeFont and str(found.path).startswith('/usr/share/fonts/'):
			found.__class__ = SystemFont
		return found
	module.truetype = truetype

	@functools.wraps(original)
	def load_default(*args, **kwargs):
		font = original(*args, **kwargs)
		if type(font) is module.FreeTypeFont and hasattr(font, 'font_bytes'):
			font.__class__ = FreeTypeFont
		return font
	module.load_default = load_default


fonts_known = {}  # functions that give the glyph of a letter, by the path of the font; '' is Pillow's own font
fonts_best = {}  # of sets of letters


def font_for(font):
	"""The path of the font that takes the place of FONT, a file of another system that is not here; '' if there is none."""
	import os
	import re
	if not isinstance(font, (str, os.PathLike)) or os.path.exists(font) or FOLDER in os.fspath(font):
		return ''
	name = re.sub(r'[^a-z]', '', os.path.splitext(re.split(r'[/\\]', os.fspath(font))[-1])[0].lower())

	def has(words):
		return any(word in name for word in words.split())
	if not name.startswith(tuple(FONTS_ELSEWHERE)):
		return ''
	kind = 'DejaVuSansMono' if has(MONO) else 'DejaVuSerif' if has(SERIF) and 'sans' not in name else 'DejaVuSans'
	path = '/usr/share/fonts/truetype/dejavu/%s%s.ttf' % (kind, '-Bold' if has(BOLD) or name.endswith('bd') else '')
	if not os.path.exists(path):
		return ''
	if notebook and not drawn['font'] and sys.stderr is not None:
		drawn['font'] = True
		sys.stderr.write('Note: the font %s is not here: DejaVu draws in its place, and other fonts of this image the letters that it does not have.\n' % ascii(os.fspath(font))[1:-1])
	return path


def best_font(own, letters):
	"""The path of the first font that has all LETTERS, None if no font has. OWN comes first, and is '' here if it is the bytes of a font."""
	key = letters if isinstance(own, bytes) else (own, letters)
	if key not in fonts_best:
		try:
			fonts_best[key] = find_font(own, [ord(c) for c in letters if c.isprintable() and c != ' '])
		except Exception:  # no matplotlib, which reads fonts
			fonts_best[key] = ''
	return fonts_best[key]


def find_font(own, letters):
	import glob
	import io
	from matplotlib.ft2font import FT2Font
	for path in ['' if isinstance(own, bytes) else own] + [path for pattern in FONTS_HERE for path in sorted(glob.glob(pattern))]:
		if path not in fonts_known:
			fonts_known[path] = FT2Font(path or io.BytesIO(own)).get_char_index
		if all(map(fonts_known[path], letters)):
			return path
	return None


def runs_of(own, text):
	"""The text in pieces that one font each has, in the order in which they are seen. What belongs to the letter before it, and blanks, stay with it."""
	import unicodedata
	runs = []
	for char in text:
		joins = runs and (unicodedata.combining(char) or char in '\u200c\u200d\ufe0e\ufe0f' or char == ' ' and fonts_known[runs[-1][0]](32))
		path = runs[-1][0] if joins else best_font(own, frozenset(char))
		if path is None and notebook and sys.stderr is not None and not drawn['boxes']:
			drawn['boxes'] = True
			sys.stderr.write('Note: no font here has the letter %s of a text that Pillow draws: it is a box.\n' % ascii(char))
		path = path or ('' if isinstance(own, bytes) else own)
		if runs and runs[-1][0] == path:
			runs[-1][1] += char
		else:
			runs.append([path, char])
	strong = [kind for kind in map(unicodedata.bidirectional, text) if kind in ('L', 'R', 'AL')]
	return runs[::-1] if strong and strong[0] != 'L' else runs


def look_at_font_manager(module):
	"""matplotlib draws the letters of every language with the fonts of this image, so a file of another system is left out."""
	import functools
	set_file, add_font = module.FontProperties.set_file, module.FontManager.addfont

	@functools.wraps(set_file)
	def set_own_file(self, file):
		return set_file(self, None if file is not None and font_for(file) else file)

	@functools.wraps(add_font)
	def add_own_font(self, path):
		return None if font_for(path) else add_font(self, path)
	module.FontProperties.set_file, module.FontManager.addfont = set_own_file, add_own_font


def look_at_text(module):
	"""LaTeX is not in this image. What most programs want of it, mathtext draws."""
	import functools
	import shutil
	if shutil.which('latex'):
		return
	original = module.Text.get_usetex

	@functools.wraps(original)
	def get_usetex(self):
		if original(self) and notebook and not drawn['latex'] and sys.stderr is not None:
			drawn['latex'] = True
			sys.stderr.write('Note: LaTeX is not in this image: mathtext of matplotlib draws the texts, as without text.usetex.\n')
		return False
	module.Text.get_usetex = get_usetex


def look_at_pytest(module):
	"""pytest imports what it tests, and no module has a name that begins with a dot. The code of the run is in another file as well, which
	each cell of a session writes anew: a module or byte code of an earlier one would be tested again."""
	import functools
	import os
	original = module.main

	@functools.wraps(original)
	def main(args=None, plugins=None):
		own = isinstance(args, (list, tuple)) and any(isinstance(word, str) and os.path.basename(word.partition('::')[0]) == BESIDE for word in args)
		if not own:
			return original(args, plugins)
		keeps_none = sys.dont_write_bytecode
		try:
			sys.dont_write_bytecode = True
			args = [CODE_FILE + word[word.index(BESIDE) + len(BESIDE):] if isinstance(word, str) and os.path.basename(word.partition('::')[0]) == BESIDE else word for word in args]
			return original(args, plugins)
		finally:
			sys.dont_write_bytecode = keeps_none
			if getattr(sys.modules.get('main'), '__file__', '') == CODE_FILE:
				del sys.modules['main']
	module.main = main


def look_at_cv2(cv2):
	"""OpenCV without windows raises an error for each function that has to do with one. Loops ask waitKey() for the q or the Escape that ends
	them."""
	keys = [27, ord('q')]

	def imshow(winname, mat):
		picture(lambda: [(mat, 'picture')])

	def wait(*args):
		keys.reverse()
		return keys[0]

	def nothing(*args, **kwargs):
		pass
	cv2.imshow, cv2.waitKey, cv2.waitKeyEx, cv2.pollKey = imshow, wait, wait, wait
	for name in 'namedWindow', 'destroyWindow', 'destroyAllWindows', 'moveWindow', 'resizeWindow', 'setWindowTitle', 'setWindowProperty', 'startWindowThread':
		setattr(cv2, name, nothing)


def look_at_reportlab(textobject):
	"""reportlab draws a text as it is stored, and says nothing: Arabic letters stand apart, Hebrew from left to right."""
	import functools
	import os
	kind = textobject.PDFTextObject
	original = kind._formatText

	@functools.wraps(original)
	def format_text(self, text, *args, **kwargs):
		try:
			if notebook and not drawn['told'] and type(text) is str and not text.isascii() and 'bidi.algorithm' not in sys.modules \
					and any('\u0590' <= c <= '\u08ff' for c in text):
				drawn['told'] = True
				sys.stderr.write('Note: %s%s.\n' % (PDF_ORDER, PDF_REGISTER if os.path.exists(PDF_REGISTER.split('"')[3]) else ''))
		except Exception:  # of a stderr that the program has closed
			pass
		return original(self, text, *args, **kwargs)
	kind._formatText = format_text


def look_at_mathtext(module):
	"""Prices in a title, as in `$5 to $7`, are drawn as mathematics: in italics, without blanks and without the dollar signs."""
	import functools
	original = module.MathTextParser.parse

	@functools.wraps(original)
	def parse(self, s, *args, **kwargs):
		found = original(self, s, *args, **kwargs)
		if notebook and not drawn['dollars'] and is_prose(s):
			tell_dollars(s)
		return found
	module.MathTextParser.parse = parse


def is_prose(text):
	"""True if a part of TEXT that stands between two dollar signs is more likely words or a price than mathematics."""
	import re
	parts = re.split(r'(?<!\\)\$', text)
	words, price, mathematics = r'\s.*[A-Za-z]{2}|[A-Za-z]{2}.*\s|^\)', r'\s|^\d', r'[\\^_{}=]'
	return any(not re.search(mathematics, part) and (re.search(words, part) or re.search(price, part) and after[:1].isdigit())
		for part, after in zip(parts[1::2], parts[2::2]))


def tell_dollars(text):
	"""In the child that draws there is no stderr: its parent says it."""
	if drawn['dollars']:
		return
	drawn['dollars'] = text
	if sys.stderr is not None:
		sys.stderr.write('Note: the text %r has been drawn as a formula:%s\n' % (' '.join(text.split())[:DOLLARS_CHARS], DOLLARS))


def tell_animation(figure):
	"""A picture of an animation has its first frame alone. Drawn by a child, it is not started here, of which it would warn at the end
	of the program, when the module of warnings is gone."""
	for known in list(figure.canvas.callbacks.callbacks.get('draw_event', {}).values()):
		method = known()
		moving = getattr(method, '__self__', None)
		if moving is not None and type(moving).__module__ == 'matplotlib.animation':
			moving._draw_was_started = True
			if sys.stderr is not None:
				sys.stderr.write('Note: of an animation the picture has the first frame alone: animation.save("film.gif", writer="pillow") or "film.mp4" saves all of it.\n')
			return


def look_at_backends(module):
	"""matplotlib takes the names of the backends of notebooks only where they are installed. IPython's light stand-in has them."""
	for name in 'inline', 'widget', 'ipympl':
		module.backend_registry._name_to_module.setdefault(name, 'module://matplotlib_inline.backend_inline')
		module.backend_registry._backend_to_gui_framework.setdefault(name, None)


def look_at_tqdm(module):
	"""The thread that watches slow bars would stay in a session, and be told as one that the program has left."""
	module.tqdm.monitor_interval = 0


def look_at_loky(module):
	"""It would start lscpu for the number of cores, and warn if that does not tell it."""
	import os
	module.physical_cores_cache = os.cpu_count()


def look_at_openpyxl(module):
	"""openpyxl writes formulas without their values: whoever reads the values then gets None, and pandas NaN."""
	import functools
	original = module.ExcelReader.read

	@functools.wraps(original)
	def read(self):
		try:
			if notebook and self.data_only and not drawn['formulas'] and without_values(self.archive):
				drawn['formulas'] = True
				sys.stderr.write('Note: formulas of this workbook have no values, because no spreadsheet program has opened it since: they are read as empty cells. Calculate in Python.\n')
		except Exception:
			pass
		return original(self)
	module.ExcelReader.read = read


def told_of_place(function):
	"""FUNCTION finds nothing in a folder that is not there, and raises no error."""
	import functools

	@functools.wraps(function)
	def look(*args, **kwargs):
		if args and notebook and not drawn['place']:
			tell_place(args[0])
		return function(*args, **kwargs)
	return look


def look_at_glob(module):
	module.glob, module.iglob = told_of_place(module.glob), told_of_place(module.iglob)


def look_at_os(module):
	module.walk = told_of_place(module.walk)


def look_at_pathlib(module):
	for name in 'glob', 'rglob', 'walk':
		if hasattr(module.Path, name):
			setattr(module.Path, name, told_of_place(getattr(module.Path, name)))


def tell_place(path):
	"""Programs that were written for Colab or Kaggle look for their files there."""
	import os
	import re
	try:
		path = os.fspath(path)
		if not isinstance(path, str) or path[:1] != '/' or path.startswith((FOLDER, '/tmp/', '/usr/')):
			return
		notebook_later()
		fixed = re.match(r'[^*?[]*', path)[0]
		folder = fixed if fixed == path else os.path.dirname(fixed)
		if path.startswith(ELSEWHERE) and not os.path.exists(folder):
			drawn['place'] = True
			names = workspace_names()
			sys.stderr.write('Note: %s\n' % printable('there is no folder %s here. Files are in %s, which is the working folder. %s'
				% (folder, WORKSPACE, listed(names) if names else 'It is empty.')))
	except Exception:
		pass


def look_at_html(module):
	"""libxml2 takes a page that does not say its encoding for Latin-1, also if it is UTF-8: names with accents then match no others."""
	import functools
	original = module._parse

	@functools.wraps(original)
	def parse(*args, **kwargs):
		try:
			page = kwargs.get('io')
			if notebook and kwargs.get('encoding') is None and isinstance(page, (str, bytes)) and len(page) < 4096:
				with open(page, 'rb') as f:
					data = f.read(HTML_LOOKED)
				notebook_later()
				if not data.isascii() and b'charset' not in data[:4096].lower() and b'encoding=' not in data[:200] and is_utf8(data, len(data) == HTML_LOOKED):
					sys.stderr.write('Note: this page does not say that it is UTF-8, and is read as Latin-1: give pandas.read_html() encoding="utf-8".\n')
		except Exception:  # an address, or a text
			pass
		return original(*args, **kwargs)
	module._parse = parse


def look_at_pip(module):
	"""pip as a function would leave out what stands before the command pip here."""
	def main(args=None):
		import subprocess
		return subprocess.call([sys.executable, '-m', 'pip'] + list(args or ()))
	module.main = main


def without_values(archive):
	import re
	for name in [name for name in archive.namelist() if name.startswith('xl/worksheets/sheet')][:SHEETS_LOOKED]:
		with archive.open(name) as f:
			if re.search(rb'</f>(?:<v ?/>|<v></v>)?</c>', f.read(SHEET_BYTES)):
				return True
	return False


hooks = {'matplotlib.pyplot': look_at, 'matplotlib.font_manager': look_at_font_manager, 'matplotlib.text': look_at_text, 'matplotlib.mathtext': look_at_mathtext, 'matplotlib.backends.registry': look_at_backends, 'tqdm.std': look_at_tqdm, 'loky.backend.context': look_at_loky, 'joblib.externals.loky.backend.context': look_at_loky, 'pip': look_at_pip, 'pip._internal': look_at_pip, 'openpyxl.reader.excel': look_at_openpyxl, 'plotly.io': look_at_plotly, 'PIL.ImageShow': look_at_viewers, 'PIL.Image': look_at_pictures, 'PIL.ImageFont': look_at_fonts, 'pandas.io.html': look_at_html, 'glob': look_at_glob, 'pathlib': look_at_pathlib, 'os': look_at_os, 'cv2': look_at_cv2,
         'reportlab.pdfgen.textobject': look_at_reportlab, 'pytest': look_at_pytest}  # what is not imported yet


class Finder:
	"""Stands first in sys.meta_path until all modules of hooks are imported. Finds them as the other finders do, and
	sets the hooks then."""

	@staticmethod
	def find_spec(name, path=None, target=None):
		look = hooks.pop(name, None)
		if look is None:
			return None
		if not hooks and Finder in sys.meta_path:
			sys.meta_path.remove(Finder)
		from importlib.util import find_spec
		spec = find_spec(name)
		if spec is None or not hasattr(spec.loader, 'exec_module'):
			return spec
		loader = spec.loader
		run = loader.exec_module

		def exec_module(module):
			del loader.exec_module
			run(module)
			try:
				look(module)
			except Exception:
				pass
		loader.exec_module = exec_module
		return spec
