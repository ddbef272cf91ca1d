# SPDX-License-Identifier: Apache-2.0
"""Executed inside the new root, with the folder of locales: keeps those of LOCALES and SHARED and removes the other 400 of Debian's locales-all.

Most files there are links to a file of another locale, so a file stays if a locale that is kept uses it. An order of letters of its own
costs a locale 2.6 MB, and classes of letters 350 KB. The less common ones, SHARED, take both from English and keep their names and
numbers: 30 KB each."""

import os
import sys

LOCALES = """de_DE de_AT de_CH en_US en_GB en_AU en_IN fr_FR fr_BE fr_CH es_ES es_MX es_AR es_CO it_IT pt_BR pt_PT nl_NL nl_BE ru_RU uk_UA pl_PL
cs_CZ sv_SE el_GR tr_TR zh_CN zh_TW zh_HK ja_JP ko_KR hi_IN ar_SA ar_EG he_IL fa_IR id_ID""".split()

SHARED = """da_DK nb_NO fi_FI hu_HU th_TH vi_VN bn_BD bn_IN sr_RS hr_HR bs_BA sk_SK sl_SI mk_MK sq_AL ro_RO bg_BG lt_LT lv_LV et_EE is_IS ga_IE
be_BY ca_ES eu_ES gl_ES ur_PK ta_IN te_IN mr_IN gu_IN kn_IN ml_IN pa_IN ne_NP si_LK my_MM km_KH lo_LA mn_MN ms_MY fil_PH sw_KE am_ET af_ZA ka_GE hy_AM
kk_KZ uz_UZ en_CA en_NZ en_ZA en_IE fr_CA es_CL es_PE it_CH ar_AE ar_MA""".split()

folder = os.path.realpath(sys.argv[1])
# Some languages have UTF-8 alone, and their folders have no suffix.
names = [name if os.path.isdir(os.path.join(folder, name)) and not os.path.isdir(os.path.join(folder, name + ".utf8")) else name + ".utf8"
         for name in LOCALES + SHARED]
for name in names[len(LOCALES):]:
    for file in "LC_COLLATE", "LC_CTYPE":
        path = os.path.join(folder, name, file)
        os.unlink(path)
        os.symlink("../en_US.utf8/" + file, path)
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
for name in LOCALES + SHARED:
    if name + ".utf8" in names and not os.path.lexists(os.path.join(folder, name)):
        os.symlink(name + ".utf8", os.path.join(folder, name))
