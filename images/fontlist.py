# SPDX-License-Identifier: Apache-2.0
"""Makes matplotlib's font list in MPLCONFIGDIR, once, while the image is built.

Code that was written elsewhere names fonts that are not here (seaborn's themes ask for Arial,
Chinese examples for SimHei). matplotlib then warns once for each text. So the list also carries
those names, pointing at a font here of the same kind; what fontconfig calls a substitution.
Letters that this font lacks come from the others (matplotlib_wide.py).
"""

import copy
import glob
import json
import os
import sys

STAND_INS = {
    "DejaVu Sans": [
        "Arial", "Arial Unicode MS", "Helvetica", "Liberation Sans", "Noto Sans", "Helvetica Neue", "Verdana", "Tahoma", "Calibri",
        "Segoe UI", "Trebuchet MS", "Roboto", "Open Sans", "Lato", "Inter", "Ubuntu", "Lucida Grande", "Lucida Sans Unicode", "Geneva",
        "Century Gothic", "Candara", "Franklin Gothic Medium", "Gill Sans", "Futura", "Optima", "Avenir", "Impact", "Comic Sans MS",
        "Bitstream Vera Sans", "FreeSans", "Nimbus Sans", "TeX Gyre Heros", "SF Pro Text", "Segoe UI Emoji", "Segoe UI Symbol",
        "Apple Color Emoji", "Noto Color Emoji", "Noto Emoji", "Symbola", "Nirmala UI", "Mangal", "Leelawadee UI", "Amiri",
        "Noto Naskh Arabic",
    ],
    "DejaVu Serif": [
        "Times New Roman", "Times", "Georgia", "Cambria", "Garamond", "Palatino", "Palatino Linotype", "Book Antiqua", "Baskerville",
        "Liberation Serif", "Noto Serif", "FreeSerif", "Nimbus Roman", "Bitstream Vera Serif", "TeX Gyre Termes",
        "Computer Modern Roman", "CMU Serif", "STIX Two Text", "Charter",
    ],
    "DejaVu Sans Mono": [
        "Courier New", "Courier", "Consolas", "Menlo", "Monaco", "Lucida Console", "Andale Mono", "Liberation Mono", "Noto Sans Mono",
        "Noto Mono", "Ubuntu Mono", "Source Code Pro", "Fira Code", "Fira Mono", "JetBrains Mono", "Roboto Mono", "FreeMono",
        "Nimbus Mono PS", "Bitstream Vera Sans Mono", "Cascadia Code", "SF Mono", "Inconsolata", "Hack",
    ],
    "WenQuanYi Micro Hei": [
        "SimHei", "SimSun", "Microsoft YaHei", "PingFang SC", "Heiti SC", "STHeiti", "Heiti TC", "WenQuanYi Zen Hei",
        "Source Han Sans SC", "Source Han Sans CN", "Source Han Sans", "Noto Sans CJK", "Microsoft JhengHei", "Microsoft YaHei UI",
        "DengXian", "KaiTi", "FangSong", "NSimSun", "STSong", "STKaiti", "STFangsong", "STXihei", "Songti SC", "Kaiti SC", "PingFang",
        "PingFang TC", "PingFang HK", "Hiragino Sans GB", "PMingLiU", "MingLiU", "YouYuan", "LiSu", "FangZheng", "Noto Sans CJK SC",
        "Noto Sans CJK TC", "Noto Sans CJK JP", "Noto Sans CJK KR", "Noto Sans SC", "Noto Sans TC", "Noto Sans JP", "Noto Sans KR",
        "MS Gothic", "MS PGothic", "MS Mincho", "MS PMincho", "Meiryo", "Yu Gothic", "Yu Mincho", "Hiragino Sans",
        "Hiragino Kaku Gothic Pro", "Hiragino Kaku Gothic ProN", "Hiragino Maru Gothic Pro", "Hiragino Maru Gothic ProN",
        "Hiragino Mincho ProN", "Noto Sans Mono CJK JP", "VL Gothic", "VL PGothic", "IPAPGothic", "IPAexMincho", "IPAexGothic",
        "IPAGothic", "TakaoPGothic", "Malgun Gothic", "NanumGothic", "Nanum Gothic", "NanumBarunGothic", "Apple SD Gothic Neo", "Gulim",
        "Dotum", "Batang", "AppleGothic", "Droid Sans Fallback",
    ],
}

import matplotlib.font_manager  # noqa: E402  (writes the list when it is imported)

where = os.environ["MPLCONFIGDIR"]
lists = glob.glob(os.path.join(where, "fontlist-*.json"))
if len(lists) != 1:
    sys.exit(f"expected one font list in {where}, found {lists}")
with open(lists[0], encoding="utf-8") as f:
    data = json.load(f)
present = {entry["name"] for entry in data["ttflist"]}
for font, names in STAND_INS.items():
    faces = [entry for entry in data["ttflist"] if entry["name"] == font]
    for name in names:
        if name not in present:
            data["ttflist"].extend({**copy.deepcopy(face), "name": name} for face in faces)
with open(lists[0], "w", encoding="utf-8") as f:
    json.dump(data, f, indent=1)
for entry in os.listdir(where):  # the lock file and tex cache are no part of an image
    if entry != os.path.basename(lists[0]):
        path = os.path.join(where, entry)
        os.rmdir(path) if os.path.isdir(path) else os.unlink(path)
print(f"font list: {len(data['ttflist'])} faces", file=sys.stderr)
