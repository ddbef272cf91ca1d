# SPDX-License-Identifier: Apache-2.0
"""Jobs of a framework: its program names them all, or does the one that is named."""
import asyncio
import inspect
import sys

JOBS = {}


def job(do):
	JOBS[do.__name__] = do
	return do


def main():
	if len(sys.argv) == 1:
		print('\n'.join(JOBS))
	elif inspect.iscoroutinefunction(JOBS[sys.argv[1]]):
		asyncio.run(JOBS[sys.argv[1]]())
	else:
		JOBS[sys.argv[1]]()
