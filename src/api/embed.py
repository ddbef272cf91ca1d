#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""embed.py RUNTIME OUT.h NAME=FILE... - the scripts of this folder as C strings, without comments."""
import sys

sys.path.insert(0, sys.argv[1])
import embed as runtime  # noqa: E402  (runtime/embed.py)

with open(sys.argv[2], 'w', encoding='ascii') as out:
    out.write('/* Made by src/api/embed.py. */\n#pragma once\n\n')
    for pair in sys.argv[3:]:
        name, path = pair.split('=', 1)
        with open(path, encoding='ascii') as source:
            out.write(runtime.constant(name, runtime.strip(source.read())))
