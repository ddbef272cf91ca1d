# SPDX-License-Identifier: Apache-2.0
"""Executed inside the new root, with the folder of locales: keeps those of LOCALES and removes the other 450 of Debian's locales-all.

Most files there are links to a file of another locale, so a file stays if a locale that is kept uses it. An order of letters of its own
costs a locale 2.6 MB. The less common ones of SHARED take the order of most languages instead, and keep their names and numbers."""

import os
import sys

LOCALES = """de_DE de_AT de_CH en_US en_GB en_AU en_IN fr_FR fr_BE fr_CH es_ES es_MX es_AR es_CO it_IT pt_BR pt_PT nl_NL nl_BE ru_RU uk_UA pl_PL
cs_CZ da_DK sv_SE nb_NO fi_FI hu_HU el_GR tr_TR zh_CN zh_TW zh_HK ja_JP ko_KR hi_IN ar_SA ar_EG he_IL fa_IR th_TH id_ID""".split()

SHARED = ["da_DK", "nb_NO", "fi_FI", "hu_HU", "th_TH"]

folder = os.path.realpath(sys.argv[1])
# Some languages have UTF-8 alone, and their folders have no suffix.
names = [name if os.path.isdir(os.path.join(folder, name)) and not os.path.isdir(os.path.join(folder, name + ".utf8")) else name + ".utf8"
         for name in LOCALES]
for name in SHARED:
    path = os.path.join(folder, name + ".utf8", "LC_COLLATE")
    os.unlink(path)
    os.symlink("../de_DE.utf8/LC_COLLATE", path)
keep = {os.path.join(folder, "C.utf8")}
for name in names:
    if not os.path.isdir(os.path.join(folder, name)):
        sys.exit(f"locales-all has no {name}")
    for where, folders, files in os.walk(os.path.join(folder, name)):
        for file in files:
            path = os.path.join(where, file)
            keep |= {path, os.path.realpath(path)}
for where, folders, files in os.walk(folder, topdown=False):
    if where == os.path.join(folder, "C.utf8") or where.startswith(os.path.join(folder, "C.utf8", "")):
        continue
    for file in files:
        if os.path.join(where, file) not in keep:
            os.unlink(os.path.join(where, file))
    if where != folder and not os.listdir(where):
        os.rmdir(where)
# A program that asks for "de_DE" alone gets UTF-8 as well.
for name in LOCALES:
    if name + ".utf8" in names and not os.path.lexists(os.path.join(folder, name)):
        os.symlink(name + ".utf8", os.path.join(folder, name))
