# SPDX-License-Identifier: Apache-2.0
"""Executed inside the new root, with the folder of Unifont and one to write: fonts with its signs and its emoji alone, whose outlines are those of TrueType.

Unifont's own files have outlines of PostScript, which reportlab does not read."""

import os
import sys

from fontTools import subset
from fontTools.pens.cu2quPen import Cu2QuPen
from fontTools.pens.ttGlyphPen import TTGlyphPen
from fontTools.ttLib import TTFont, newTable

PARTS = ("unifont.otf", "signs.ttf", range(0x2000, 0x2c00)), ("unifont_upper.otf", "emoji.ttf", range(0x1f000, 0x1fb00))


def to_truetype(font):
    names, outlines = font.getGlyphOrder(), font.getGlyphSet()
    table = font["glyf"] = newTable("glyf")
    table.glyphOrder, table.glyphs = names, {}
    for name in names:
        pen = TTGlyphPen(outlines)
        outlines[name].draw(Cu2QuPen(pen, 1, reverse_direction=True))
        table.glyphs[name] = pen.glyph()
    font["loca"] = newTable("loca")
    font["maxp"].tableVersion = 0x00010000
    for key in ("maxZones", "maxTwilightPoints", "maxStorage", "maxFunctionDefs", "maxInstructionDefs", "maxStackElements",
                "maxSizeOfInstructions", "maxComponentElements", "maxPoints", "maxContours", "maxCompositePoints", "maxCompositeContours",
                "maxComponentDepth"):
        setattr(font["maxp"], key, 1 if key == "maxZones" else 0)
    font["post"].formatType, font["post"].extraNames, font["post"].mapping, font["post"].glyphOrder = 2.0, [], {}, names
    for tag in ("CFF ", "VORG"):
        if tag in font:
            del font[tag]
    font.sfntVersion = "\0\1\0\0"


where, to = sys.argv[1:]
os.makedirs(to, exist_ok=True)
for source, name, letters in PARTS:
    font = TTFont(os.path.join(where, source))
    options = subset.Options(name_IDs=["*"], notdef_outline=True)
    smaller = subset.Subsetter(options)
    smaller.populate(unicodes=letters)
    smaller.subset(font)
    to_truetype(font)
    font.save(os.path.join(to, name))
