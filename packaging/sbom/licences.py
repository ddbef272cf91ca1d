# SPDX-License-Identifier: Apache-2.0
"""Licences as SPDX expressions, from what Debian's copyright files, package.json and metadata of Python packages say."""
import re

# Identifiers of SPDX's list that occur, in the spelling of the list.
IDS = {i.lower(): i for i in '''0BSD AFL-2.1 Apache-1.1 Apache-2.0 Artistic-1.0 Artistic-2.0 blessing Bitstream-Vera BlueOak-1.0.0 BSD-1-Clause
BSD-2-Clause BSD-3-Clause BSD-4-Clause BSD-4-Clause-UC BSL-1.0 bzip2-1.0.6 CC0-1.0 CC-BY-3.0 CC-BY-4.0 CC-BY-SA-3.0 CC-BY-SA-4.0 CDDL-1.0
CECILL-2.1 curl FSFAP FSFUL FSFULLR FTL HPND ICU IJG ISC JSON Latex2e libpng-2.0 Libpng libtiff LPPL-1.3c MIT MIT-0 MIT-CMU MPL-1.1 MPL-2.0
NCSA NTP OFL-1.1 OpenSSL PSF-2.0 Python-2.0 SGI-B-2.0 Sleepycat TCL Unicode-3.0 Unicode-DFS-2016 Unlicense Vim W3C WTFPL X11 Zlib
ZPL-2.1 GPL-1.0-only GPL-1.0-or-later GPL-2.0-only GPL-2.0-or-later GPL-3.0-only GPL-3.0-or-later LGPL-2.0-only LGPL-2.0-or-later
LGPL-2.1-only LGPL-2.1-or-later LGPL-3.0-only LGPL-3.0-or-later AGPL-3.0-only AGPL-3.0-or-later GFDL-1.2-only GFDL-1.2-or-later
GFDL-1.3-only GFDL-1.3-or-later GFDL-1.3-no-invariants-or-later GFDL-1.2-no-invariants-or-later'''.split()}
# Other names of them: of Debian (copyright-format 1.0), of trove classifiers, and of people.
NAMES = {
    'expat': 'MIT', 'mit/x11': 'MIT', 'mit license': 'MIT', 'the mit license': 'MIT', 'mit-license': 'MIT', 'apache 2.0': 'Apache-2.0', 'apache2': 'Apache-2.0',
    'apache-2': 'Apache-2.0', 'apache license 2.0': 'Apache-2.0', 'apache license, version 2.0': 'Apache-2.0', 'apache license version 2.0': 'Apache-2.0',
    'cc0': 'CC0-1.0', 'mpl-2': 'MPL-2.0', 'mpl 2.0': 'MPL-2.0', 'mozilla public license 2.0 (mpl 2.0)': 'MPL-2.0', 'zlib/libpng': 'Zlib',
    'bsd 3-clause': 'BSD-3-Clause', '3-clause bsd': 'BSD-3-Clause', 'bsd 3-clause license': 'BSD-3-Clause', 'bsd-3-clause license': 'BSD-3-Clause',
    'new bsd': 'BSD-3-Clause', 'new bsd license': 'BSD-3-Clause', 'modified bsd license': 'BSD-3-Clause', 'bsd-3': 'BSD-3-Clause', 'bsd-2': 'BSD-2-Clause',
    'bsd 2-clause': 'BSD-2-Clause', 'bsd 2-clause license': 'BSD-2-Clause', 'bsd-3-clauses': 'BSD-3-Clause', 'psfl': 'PSF-2.0', 'psf': 'PSF-2.0',
    'python software foundation license': 'PSF-2.0', 'isc license': 'ISC', 'isc license (iscl)': 'ISC', 'boost-1.0': 'BSL-1.0', 'artistic': 'Artistic-1.0',
    'the unlicense (unlicense)': 'Unlicense', 'ofl-1.1': 'OFL-1.1', 'lgpl': 'LGPL-2.0-or-later',
    'gnu lesser general public license v3 or later (lgplv3+)': 'LGPL-3.0-or-later', 'gnu general public license v3 or later (gplv3+)': 'GPL-3.0-or-later',
}
# What was read in the copyright files of packages whose file cannot be read by a program, or names a licence by a name of its own.
# By source package; SPDX calls it concluded, and what a package's own metadata says declared.
CONCLUDED = {
    'acl': 'LGPL-2.1-or-later', 'bzip2': 'bzip2-1.0.6', 'gcc': 'GPL-3.0-or-later WITH GCC-exception-3.1', 'glibc': 'LGPL-2.1-or-later', 'icu': 'ICU',
    'libedit': 'BSD-3-Clause', 'libgcrypt20': 'LGPL-2.1-or-later', 'libxcrypt': 'LGPL-2.1-or-later', 'libxml2': 'MIT', 'python3': 'PSF-2.0', 'sqlite3': 'blessing',
}
GNU = re.compile(r'(A?GPL|LGPL|GFDL)-?(?:v)?(\d)(?:\.(\d))?(?:\.0)?(\+|-or-later|-only)?', re.I)


def identifier(name):
    """The identifier of one licence, or None."""
    name = ' '.join(name.split())
    low = name.lower()
    if low in IDS:
        return IDS[low]
    if low in NAMES:
        return NAMES[low]
    m = GNU.fullmatch(name)
    if m:
        full = f'{m[1].upper()}-{m[2]}.{m[3] or 0}-{"or-later" if m[4] in ("+", "-or-later") else "only"}'
        return IDS.get(full.lower())
    return None


class Licence:
    """An expression; what is not in SPDX's list is LicenseRef-…, with its text (or name) in `texts`."""

    def __init__(self, expression, texts=None, name=None):
        self.expression, self.texts, self.name = expression, texts or {}, name


def expression(text, scope, texts_of=lambda name: None):
    """The Licence that TEXT names ("GPL-2+ or Expat, and Zlib"); SCOPE keeps names of our own apart. None: it names none."""
    text = ' '.join(text.split()).strip(' .')
    if not text or text.lower() in ('unknown', 'none', 'n/a', 'noassertion', 'dual license', 'other/proprietary license'):
        return None
    whole = identifier(text)
    if whole:
        return Licence(whole)
    texts, parts = {}, []
    # "A, and B or C" is "A and (B or C)": copyright-format 1.0 says that a comma binds less than a word.
    for clause in re.split(r',\s*(?:and\s+)?|;\s*', text):
        words = [w for w in re.split(r'\s+(and|or)\s+|\s*(\()\s*|\s*(\))', clause, flags=re.I) if w and w.strip()]
        out = []
        for word in words:
            if word.lower() in ('and', 'or'):
                out.append(word.upper())
            elif word in '()':
                out.append(word)
            else:
                known = identifier(word) or with_exception(word)
                if not known:
                    known = 'LicenseRef-' + re.sub('[^A-Za-z0-9.]+', '-', f'{scope}-{word}')[:100].strip('-.')
                    texts[known] = texts_of(word) or word
                out.append(known)
        parts.append(' '.join(out).replace('( ', '(').replace(' )', ')'))
    if not all(map(well_formed, parts)):
        ref = 'LicenseRef-' + re.sub('[^A-Za-z0-9.]+', '-', f'{scope}-{text}')[:100].strip('-.')
        return Licence(ref, {ref: texts_of(text) or text}, text)
    if len(parts) > 1:
        parts = [f'({p})' if ' ' in p else p for p in parts]
    return Licence(' AND '.join(parts), texts, text)


def with_exception(word):
    """"GPL-3+ WITH GCC-exception-3.1", as SPDX writes it."""
    m = re.fullmatch(r'(\S+) with (GCC-exception-3\.1|Classpath-exception-2\.0|LLVM-exception|Autoconf-exception-2\.0|Bison-exception-2\.2)', word, re.I)
    base = m and identifier(m[1])
    return f'{base} WITH {m[2]}' if base else None


def well_formed(text):
    """Whether operands and operators alternate, and brackets close."""
    depth, operand = 0, True
    for word in text.replace(' WITH ', '_').replace('(', ' ( ').replace(')', ' ) ').split():
        if word == '(':
            if not operand:
                return False
            depth += 1
        elif word == ')':
            depth -= 1
            if operand or depth < 0:
                return False
        elif word in ('AND', 'OR'):
            if operand:
                return False
            operand = True
        else:
            if not operand:
                return False
            operand = False
    return depth == 0 and not operand


def of_copyright_file(text, scope):
    """The Licence of `Files: *` in a file of copyright-format 1.0; None where the file is prose, or has no such paragraph."""
    if 'Format:' not in text[:400]:
        return None
    main, texts = None, {}
    for paragraph in re.split(r'\n(?:[ \t]*\n)+', text):
        fields = {}
        for m in re.finditer(r'^([A-Za-z-]+):[ \t]*((?:.*)(?:\n[ \t].*)*)', paragraph, re.M):
            fields.setdefault(m[1].lower(), m[2].strip('\n'))
        if 'license' not in fields:
            continue
        name, _, body = fields['license'].partition('\n')
        if not name.strip():
            name, _, body = body.strip().partition('\n')
        body = '\n'.join('' if line.strip() == '.' else line.strip() for line in body.splitlines()).strip()
        if body:
            texts.setdefault(name.strip().lower(), body)
        if main is None and '*' in fields.get('files', '').split():
            main = name.strip()
    return expression(main, scope, lambda word: texts.get(word.lower())) if main else None
