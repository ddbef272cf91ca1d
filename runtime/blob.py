#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""blob.py OUT.S FILE SYMBOL - writes an assembler source with FILE as read-only bytes between SYMBOL and SYMBOL_end."""
import os
import sys

TEXT = '''	.section .rodata
	.balign 16
	.globl %(symbol)s
	.type %(symbol)s, @object
%(symbol)s:
	.incbin "%(file)s"
	.globl %(symbol)s_end
%(symbol)s_end:
	.size %(symbol)s, . - %(symbol)s
	.byte 0
	.section .note.GNU-stack, "", %%progbits
'''


def main(out, file, symbol):
	with open(out, 'w', encoding='ascii') as f:
		f.write(TEXT % {'file': os.path.abspath(file), 'symbol': symbol})


if __name__ == '__main__':
	main(*sys.argv[1:])
