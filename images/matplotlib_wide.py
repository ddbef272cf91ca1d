# SPDX-License-Identifier: Apache-2.0
"""Makes every font of matplotlib write every script, and programs for a desktop draw into files.

A chart has the letters of the fonts that its program names, and boxes for all others. font_manager.py of this image calls use_fonts() at
its end, and each font is then followed by fonts for the other scripts. matplotlib takes a letter from the first that has it. text.py
calls use_order(): Arabic and Hebrew come in the order and the forms of print, as matplotlib draws letters one by one. A program that
imports bidi does so itself, and its texts are left alone. pyplot.py calls use_files(): a backend with windows is replaced with a note.
style/core.py calls use_old_names().
"""

import functools
import glob
import re
import sys

DEJAVU = '/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf'
FOLDERS = ('/usr/share/fonts/truetype/wqy/*.ttc', '/usr/share/fonts/truetype/noto/*.ttf', '/usr/share/fonts/truetype/unifont/*.ttf')
WIDE = [DEJAVU] + [path for folder in FOLDERS for path in sorted(glob.glob(folder))]
RIGHT_TO_LEFT = re.compile('[\u0590-\u08ff]')
_own = []  # the function that brings a text into order


def use_fonts(font_manager):
    kind = font_manager.FontManager
    plain = kind._find_fonts_by_props

    def find(self, prop, fontext='ttf', directory=None, *args, **kwargs):
        found = plain(self, prop, fontext, directory, *args, **kwargs)
        return found + [path for path in WIDE if path not in found] if fontext == 'ttf' and directory is None else found

    kind._find_fonts_by_props = find


def _order():
    if not _own:
        before = set(sys.modules)
        from arabic_reshaper import reshape
        from bidi.algorithm import get_display
        for name in set(sys.modules) - before:  # whoever imports them later is the program
            if name.partition('.')[0] in ('bidi', 'arabic_reshaper'):
                del sys.modules[name]
        _own.append(lambda text: get_display(reshape(text)))
    return _own[0]


def use_order(kind):
    plain = kind._preprocess_math

    def preprocess(self, s):
        s, math = plain(self, s)
        if math is False and not s.isascii() and RIGHT_TO_LEFT.search(s) and 'bidi' not in sys.modules and 'arabic_reshaper' not in sys.modules:
            s = _order()(s)
        return s, math

    kind._preprocess_math = preprocess


def use_files(pyplot):
    plain = pyplot.switch_backend

    @functools.wraps(plain)
    def switch_backend(newbackend):
        try:
            plain(newbackend)
        except ImportError:
            sys.stderr.write('Note: the backend %s needs a screen or a notebook, and there is none: figures are drawn into files, by Agg.\n' % newbackend)
            plain('agg')

    pyplot.switch_backend = switch_backend


def use_old_names(library):
    """matplotlib 3.6 renamed seaborn's styles."""
    mark = 'seaborn-v0_8'
    for name in [name for name in library if name.startswith(mark)]:
        library.setdefault('seaborn' + name[len(mark):], library[name])
