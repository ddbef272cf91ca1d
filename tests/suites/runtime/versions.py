#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""versions.py FILE...: fails if a shared object needs a C library that is newer than the oldest one of images (Debian 11)."""
import re
import subprocess
import sys

OLDEST = (2, 31)

for path in sys.argv[1:]:
	symbols = subprocess.run(['objdump', '-T', path], check=True, capture_output=True, text=True).stdout
	newer = [line.split()[-1] for line in symbols.splitlines()
	         for version in re.findall(r'GLIBC_([0-9.]+)', line) if tuple(map(int, version.split('.'))) > OLDEST]
	if newer:
		sys.exit('%s needs a newer C library for: %s' % (path, ', '.join(newer)))
