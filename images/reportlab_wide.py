# SPDX-License-Identifier: Apache-2.0
"""Makes the standard fonts of reportlab write every script.

Helvetica, Times and Courier of a PDF have Latin letters only: reportlab draws black boxes for all other scripts. pdfmetrics.py of this image calls use() at its end, and each standard font then takes, letter by letter, the first font that
has the letter: the standard font itself, DejaVu, WenQuanYi Micro Hei, fonts for other scripts. Documents that need only the standard font are as before.

Scripts of India and South-East Asia join their letters and change their order: HarfBuzz makes glyphs of their words. textobject.py calls use_shapes(). ttfonts.py calls use_texts(): a reader that copies such a word gets its letters, and emoji.
"""

import functools
import glob
import itertools
import re

DEJAVU = '/usr/share/fonts/truetype/dejavu/DejaVu%s.ttf'
WIDE = '/usr/share/fonts/truetype/wqy/wqy-microhei.ttc'
OTHERS = sorted(glob.glob('/usr/share/fonts/truetype/noto/*.ttf')) + sorted(glob.glob('/usr/share/fonts/truetype/unifont/*.ttf'))
JOINED = re.compile('[\u0900-\u0dff\u0f00-\u109f\u1780-\u17ff]')  # Devanagari to Sinhala, Tibetan, Myanmar, Khmer
JOINERS = '\u200c\u200d'  # between letters of these scripts; else they make one emoji of several
FORMS = dict.fromkeys([0xfe0e, 0xfe0f])  # which form of an emoji is meant: a PDF has one form
STAND_INS = {
    'Helvetica': 'Sans', 'Helvetica-Bold': 'Sans-Bold',
    'Helvetica-Oblique': 'Sans-Oblique', 'Helvetica-BoldOblique': 'Sans-BoldOblique',
    'Times-Roman': 'Serif', 'Times-Bold': 'Serif-Bold',
    'Times-Italic': 'Serif-Italic', 'Times-BoldItalic': 'Serif-BoldItalic',
    'Courier': 'SansMono', 'Courier-Bold': 'SansMono-Bold',
    'Courier-Oblique': 'SansMono-Oblique', 'Courier-BoldOblique': 'SansMono-BoldOblique',
}
_shared = {}
_glyphs = {}  # code of a glyph in a word, by font, glyph and the letters that it stands for
_letters = {}  # those letters, by the code
_codes = itertools.count(0xf0000)  # private ones


def _open(path, **options):
    """One TTFont a file for all fonts; None where the file is missing."""
    from reportlab.pdfbase.ttfonts import TTFError, TTFont
    if path not in _shared:
        try:
            font = _shared[path] = TTFont('caisson-' + path.rsplit('/', 1)[1], path, **options)
            font.face.name += b'-Wide'  # the program may use the same file: see use()
        except (OSError, TTFError):
            _shared[path] = None
    return _shared[path]


class WideFont:
    """Behaves as reportlab's dynamic fonts do: splitString() gives runs, each with the key of its part."""
    _multiByte = 1
    _dynamicFont = 1
    shapable = False

    def __init__(self, plain, stand_in):
        self.fontName, self.face, self.encName = plain.fontName, plain.face, plain.encName
        self.encoding, self.substitutionFonts = plain.encoding, []
        self.widths = plain.widths
        self._plain, self._stand_in = plain, stand_in
        self._parts = {}

    def __repr__(self):
        return '<WideFont %s>' % self.fontName

    def _part_of(self, char):
        """The Type 1 font as None, or the TTFont that has CHAR."""
        try:
            char.encode('cp1252')
            return None
        except UnicodeEncodeError:
            pass
        code = ord(char)
        first = None
        for path, options in [(DEJAVU % self._stand_in, {}), (WIDE, {'subfontIndex': 0})] + [(path, {}) for path in OTHERS]:
            font = _open(path, **options)
            if font and code in font.face.charToGlyph:
                return font
            first = first or font
        return first

    def _runs(self, text):
        if isinstance(text, bytes):
            text = text.decode('utf-8')
        if not text.isascii():
            text = text.translate(FORMS)
        if text.isascii():
            return [(None, text)]
        runs = []
        for word in re.findall(r'\s+|\S+', text):
            for part, piece in self._word(word):
                if runs and runs[-1][0] is part:
                    runs[-1] = (part, runs[-1][1] + piece)
                else:
                    runs.append((part, piece))
        return runs

    def _word(self, word):
        """A word of letters that the first two fonts have is not mixed: it takes one of them as a whole."""
        parts = []
        if any(char in word for char in JOINERS):
            word = re.sub('(?<!%s)[%s]' % (JOINED.pattern, JOINERS), '', word)
        for char in word:
            if char in JOINERS:
                parts.append(parts[-1])
                continue
            if char not in self._parts:
                self._parts[char] = self._part_of(char)
            parts.append(self._parts[char])
        others = {part for part in parts if part}
        if not others:
            return [(None, word)]
        stand_in = _open(DEJAVU % self._stand_in)
        if others == {stand_in} and all(ord(c) in stand_in.face.charToGlyph for c in word):
            return [(stand_in, word)]
        return zip(parts, word)

    def stringWidth(self, text, size, encoding='utf8'):
        return sum(sum(glyph[1] for glyph in shape(part, run)) * size / 1000 if part and JOINED.search(run) else (part or self._plain).stringWidth(run, size)
                   for part, run in self._runs(text))

    def splitString(self, text, doc, encoding='utf-8'):
        pieces = []
        for part, run in self._runs(text):
            if part is None:
                pieces.append((('plain', 0), run.encode('cp1252', 'replace')))
            else:
                pieces.extend(((part.fontName, subset), data) for subset, data in part.splitString(run, doc))
        return pieces

    def getSubsetInternalName(self, subset, doc):
        name, number = subset
        if name == 'plain':
            self.addObjects(doc)
            return doc.fontMapping[self.fontName]
        return next(f for f in _shared.values() if f and f.fontName == name).getSubsetInternalName(number, doc)

    def addObjects(self, doc):
        if self.fontName not in doc.fontMapping:
            self._plain.addObjects(doc)


@functools.lru_cache(4096)
def shape(font, text):
    """The glyphs of TEXT, which FONT has all letters of: (private code, advance, offset to the right, upwards, width) in thousandths of the size."""
    import uharfbuzz
    buffer = uharfbuzz.Buffer()
    buffer.cluster_level = uharfbuzz.BufferClusterLevel.MONOTONE_GRAPHEMES
    buffer.add_str(text)
    buffer.guess_segment_properties()
    drawn = font.hbFont()
    uharfbuzz.shape(drawn, buffer)
    infos, places, found = buffer.glyph_infos, buffer.glyph_positions, []
    for start, syllable in itertools.groupby(range(len(infos)), lambda i: infos[i].cluster):
        syllable = list(syllable)
        after = syllable[-1] + 1
        letters = text[start:infos[after].cluster if after < len(infos) else len(text)]
        for n, i in enumerate(syllable):
            # One letter for each glyph and the rest for the last one: together they give the syllable to readers.
            key = font, infos[i].codepoint, letters[n:n + 1] if i + 1 < after else letters[n:]
            if key not in _glyphs:
                code = _glyphs[key] = next(_codes)
                _letters[code] = key[2]
                font.face.charToGlyph[code] = key[1]
                font.face.charWidths[code] = font.face._pdfScale(drawn.get_glyph_h_advance(key[1]))
            code = _glyphs[key]
            found.append((code, *(font.face._pdfScale(v) for v in (places[i].x_advance, places[i].x_offset, places[i].y_offset)), font.face.charWidths[code]))
    return found


def use_shapes(textobject):
    """Lets a text object draw the glyphs that shape() gives."""
    from reportlab.pdfbase import pdfmetrics, ttfonts
    kind = textobject.PDFTextObject
    plain = kind._formatText

    @functools.wraps(plain)
    def format_text(self, text):
        name = self._fontname
        font = pdfmetrics.getFont(name)
        text = text.decode('utf-8') if isinstance(text, bytes) else text
        if not isinstance(font, WideFont) or isinstance(text, ttfonts.ShapedStr) or not JOINED.search(text):
            return plain(self, text)
        pieces = []
        for part, run in font._runs(text):
            if part and JOINED.search(run):
                glyphs = shape(part, run)
                pdfmetrics._fonts.setdefault(part.fontName, part)
                self._fontname, self._curSubset = part.fontName, -1
                pieces.append(plain(self, ttfonts.ShapedStr(''.join(chr(glyph[0]) for glyph in glyphs),
                    [ttfonts.ShapeData(i, advance, 0, right, up, width) for i, (code, advance, right, up, width) in enumerate(glyphs)])))
                self._fontname, self._curSubset = name, -1
            else:
                pieces.append(plain(self, run))
        return ' '.join(pieces)

    kind._formatText = format_text


def use_texts(ttfonts):
    """The table of a font with which readers find the letters of its glyphs: reportlab's own has wrong digits for letters above U+FFFF."""
    plain = ttfonts.makeToUnicodeCMap

    @functools.wraps(plain)
    def table(fontname, subset):
        long = {'%04X' % code: _letters.get(code, chr(code)).encode('utf-16-be').hex().upper() for code in subset if code > 0xffff}
        return re.sub(r'(?m)^(<..> )<(.{5,6})>$', lambda found: '%s<%s>' % (found.group(1), long[found.group(2)]), plain(fontname, subset))

    ttfonts.makeToUnicodeCMap = table


def use(pdfmetrics):
    """Lets PDFMETRICS make wide fonts where it would make standard ones, and take one file under two names."""
    plain = pdfmetrics.findFontAndRegister
    register = pdfmetrics.registerFont
    names = {}  # of faces, and the font that each belongs to

    def register_font(font):
        """A document calls its objects by the names of faces, and takes no name twice."""
        face = getattr(font, 'face', None)
        if isinstance(getattr(face, 'name', None), bytes) and names.setdefault(face.name, font.fontName) != font.fontName:
            face.name += b'-' + font.fontName.encode('ascii', 'replace').replace(b' ', b'')
        return register(font)

    def find(name):
        font = plain(name)
        if str(name) in STAND_INS and type(font) is pdfmetrics.Font and font.encName == 'WinAnsiEncoding':
            font = WideFont(font, STAND_INS[str(name)])
            pdfmetrics._fonts[font.fontName] = font
        return font

    pdfmetrics.findFontAndRegister = find
    pdfmetrics.registerFont = register_font
