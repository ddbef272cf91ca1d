# SPDX-License-Identifier: Apache-2.0
"""floor.py ROOT N - prints the milliseconds of N bare starts (fork + exec + wait) of the interpreter in ROOT, as JSON."""
import json
import os
import sys
import time


def once():
	started = time.perf_counter()
	pid = os.fork()
	if pid == 0:
		os.execv('/usr/bin/python3', ['python3', '-c', 'print(1)'])
	status = os.waitpid(pid, 0)[1]
	took = (time.perf_counter() - started) * 1000
	if status != 0:
		raise SystemExit('the interpreter ended with %d' % status)
	return round(took, 4)


def main(root, n):
	out = os.dup(1)
	os.dup2(os.open('/dev/null', os.O_WRONLY), 1)
	os.chroot(root)
	os.chdir('/')
	once()
	os.write(out, json.dumps([once() for _ in range(int(n))]).encode())


if __name__ == '__main__':
	main(*sys.argv[1:])
