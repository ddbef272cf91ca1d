# SPDX-License-Identifier: Apache-2.0
# Gives a file or folder of the workspace another name, or makes a folder, inside the sandbox. The server puts PATH and TO
# (bytes; TO is empty for a folder) before this text, and reads one JSON object from stdout, which it does not trust.
import json
import os
import sys


def main():
	wanted = TO or PATH
	if TO and not os.path.lexists(PATH):
		return {'error': 'missing'}
	if os.path.lexists(wanted):
		return {'error': 'exists'}
	try:
		os.makedirs(wanted if not TO else os.path.dirname(wanted), exist_ok=True)
		if TO:
			os.rename(PATH, TO)
	except OSError as e:
		return {'error': os.strerror(e.errno or 0)}
	return {}


sys.stdout.write(json.dumps(main()))
