# SPDX-License-Identifier: Apache-2.0
"""Makes matplotlib's font list in MPLCONFIGDIR, once, while the image is built.

Code that was written elsewhere names fonts that are not here (seaborn's themes ask for Arial,
Chinese examples for SimHei). matplotlib then falls back to a font without CJK glyphs and draws
boxes. So the list also carries those names, pointing at the one font here that has Latin, Greek,
Cyrillic, Chinese, Japanese and Korean; what fontconfig calls a substitution.
"""

import copy
import glob
import json
import os
import sys

WIDE = "WenQuanYi Micro Hei"
STAND_INS = [
    "Arial", "Arial Unicode MS", "Helvetica", "Liberation Sans", "Noto Sans",
    "SimHei", "SimSun", "Microsoft YaHei", "PingFang SC", "Heiti SC", "STHeiti", "Heiti TC",
    "WenQuanYi Zen Hei", "Source Han Sans SC", "Source Han Sans CN",
    "Noto Sans CJK SC", "Noto Sans CJK TC", "Noto Sans CJK JP", "Noto Sans CJK KR",
    "Noto Sans SC", "Noto Sans TC", "Noto Sans JP", "Noto Sans KR",
    "MS Gothic", "Yu Gothic", "Hiragino Sans", "IPAexGothic", "IPAGothic", "TakaoPGothic",
    "Malgun Gothic", "NanumGothic", "AppleGothic", "Droid Sans Fallback",
]

import matplotlib.font_manager  # noqa: E402  (writes the list when it is imported)

where = os.environ["MPLCONFIGDIR"]
lists = glob.glob(os.path.join(where, "fontlist-*.json"))
if len(lists) != 1:
    sys.exit(f"expected one font list in {where}, found {lists}")
with open(lists[0], encoding="utf-8") as f:
    data = json.load(f)
present = {entry["name"] for entry in data["ttflist"]}
wide = [entry for entry in data["ttflist"] if entry["name"] == WIDE]
for name in STAND_INS if wide else []:
    if name not in present:
        data["ttflist"].append({**copy.deepcopy(wide[0]), "name": name})
with open(lists[0], "w", encoding="utf-8") as f:
    json.dump(data, f, indent=1)
for entry in os.listdir(where):  # the lock file and tex cache are no part of an image
    if entry != os.path.basename(lists[0]):
        path = os.path.join(where, entry)
        os.rmdir(path) if os.path.isdir(path) else os.unlink(path)
print(f"font list: {len(data['ttflist'])} faces", file=sys.stderr)
