#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""refused.py BUILD - same.py on a machine that refuses namespaces must say so and end, not wait for a child that is gone."""
import os
import subprocess
import sys

SAME = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'same.py')
INSIDE = 'echo 0 > /proc/sys/user/max_user_namespaces || exit 77; exec "$@"'
try:
	r = subprocess.run(['unshare', '--user', '--map-root-user', 'sh', '-c', INSIDE, 'sh', sys.executable, SAME, sys.argv[1]],
	                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, text=True)
except subprocess.TimeoutExpired:
	sys.exit('same.py hangs where unshare is refused')
if r.returncode == 77 or 'unshare failed' in r.stdout:
	sys.exit(77)
if r.returncode == 0 or 'no namespaces' not in r.stdout:
	sys.exit('same.py ended with %d and said: %s' % (r.returncode, r.stdout[-2000:]))
