# SPDX-License-Identifier: Apache-2.0
# Decodes a text that is not UTF-8, inside the sandbox that has it. The server puts PATH (bytes) and LIMIT before this text and
# charset.py, and reads "NAME SURE", a line end and the text as UTF-8 from stdout, which it does not trust.
import os

with open(PATH, 'rb') as file:
	data = file.read(LIMIT)
charset = charset_of(data)
if charset:
	data = ('%s %d\n' % charset).encode() + data.decode(charset[0], 'replace').encode('utf-8', 'replace')
	while data:
		data = data[os.write(1, data):]
