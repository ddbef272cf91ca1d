# SPDX-License-Identifier: Apache-2.0
"""Makes the standard fonts of reportlab write every script.

Helvetica, Times and Courier of a PDF have Latin letters only: reportlab draws black boxes for all other scripts. pdfmetrics.py of this image calls use() at its end, and each standard font then takes, letter by letter, the first font that
has the letter: the standard font itself, DejaVu, WenQuanYi Micro Hei, fonts for other scripts. Documents that need only the standard font are as before.
"""

import glob
import re

DEJAVU = '/usr/share/fonts/truetype/dejavu/DejaVu%s.ttf'
WIDE = '/usr/share/fonts/truetype/wqy/wqy-microhei.ttc'
OTHERS = sorted(glob.glob('/usr/share/fonts/truetype/noto/*.ttf'))
STAND_INS = {
    'Helvetica': 'Sans', 'Helvetica-Bold': 'Sans-Bold',
    'Helvetica-Oblique': 'Sans-Oblique', 'Helvetica-BoldOblique': 'Sans-BoldOblique',
    'Times-Roman': 'Serif', 'Times-Bold': 'Serif-Bold',
    'Times-Italic': 'Serif-Italic', 'Times-BoldItalic': 'Serif-BoldItalic',
    'Courier': 'SansMono', 'Courier-Bold': 'SansMono-Bold',
    'Courier-Oblique': 'SansMono-Oblique', 'Courier-BoldOblique': 'SansMono-BoldOblique',
}
_shared = {}


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
        for char in word:
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
        return sum((part or self._plain).stringWidth(run, size) for part, run in self._runs(text))

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
