#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The table of tools/coverage: DIR/all.lcov by room, as text and, for PAGE, as Markdown; and the lines that nothing reached."""
import collections
import os
import sys
import time

LEAST = 80  # per cent of lines; a room with less wants cases


class Room:
	def __init__(self):
		self.lines = self.lines_reached = self.branches = self.branches_reached = 0

	def line(self, hits):
		self.lines += 1
		self.lines_reached += hits > 0

	def branch(self, hits):
		self.branches += 1
		self.branches_reached += hits > 0

	def row(self, name, form):
		return form.format(name, 100 * self.lines_reached / max(1, self.lines), self.lines,
			100 * self.branches_reached / max(1, self.branches), self.branches)


def read(path):
	rooms, missed, file, room = collections.defaultdict(Room), collections.defaultdict(list), '', None
	with open(path, encoding='utf-8') as lcov:
		for line in lcov:
			what, _, value = line.strip().partition(':')
			if what == 'SF':
				at = value.rfind('/src/')
				file = value[at + 1:] if at >= 0 else ''
				room = rooms[os.path.dirname(file)] if file else None
			elif room and what == 'DA':
				number, hits = map(int, value.split(',')[:2])
				room.line(hits)
				if hits == 0:
					missed[file].append(number)
			elif room and what == 'BRDA':
				hits = value.rsplit(',', 1)[1]
				room.branch(0 if hits == '-' else int(hits))
	return {name: room for name, room in rooms.items() if room.lines}, missed


def ranges(numbers):
	out = []
	for n in numbers:
		if out and out[-1][1] == n - 1:
			out[-1][1] = n
		else:
			out.append([n, n])
	return ' '.join(f'{a}-{b}' if b > a else str(a) for a, b in out)


def total(rooms):
	whole = Room()
	for room in rooms.values():
		for name, value in vars(room).items():
			setattr(whole, name, getattr(whole, name) + value)
	return whole


def write_page(path, rooms):
	how = 'the unit tests and these ' if os.environ['units'] else 'these '
	tests = ', '.join(f'`{t}`' for t in os.environ['tests'].split())
	day = time.strftime('%Y-%m-%d', time.gmtime())
	form = '| {} | {:.0f} % | {} | {:.0f} % | {} |'
	rows = [room.row(f'`{name}`', form) for name, room in sorted(rooms.items())]
	with open(path, 'w', encoding='utf-8') as page:
		page.write(f'''# Coverage

Lines and branches of the server that tests reach, by room. `tools/coverage --page` writes this page; `build-cov/unreached.txt` then has the lines that
nothing reached. It was written on {day} at commit {os.environ['commit']}, with {how}files of black-box tests as {os.environ['mode']}:
{tests}.

What runs inside a sandbox (`runtime/`) is not counted, nor are the suites (hostile, kill, race, engines and so on): a room that is below {LEAST} % here
may be reached by one of them.

| room | lines reached | lines | branches reached | branches |
|---|---:|---:|---:|---:|
''' + '\n'.join([*rows, total(rooms).row('all', form)]) + '\n')


def main(folder, page=None):
	rooms, missed = read(os.path.join(folder, 'all.lcov'))
	form = '{:40} {:5.1f} % of {:5} lines  {:5.1f} % of {:5} branches'
	table = '\n'.join([room.row(name, form) for name, room in sorted(rooms.items())] + [total(rooms).row('all', form)])
	print(table)
	with open(os.path.join(folder, 'coverage.txt'), 'w', encoding='utf-8') as out:
		out.write(table + '\n')
	with open(os.path.join(folder, 'unreached.txt'), 'w', encoding='utf-8') as out:
		for file, numbers in sorted(missed.items(), key=lambda f: -len(f[1])):
			out.write(f'{file} ({len(numbers)} lines): {ranges(numbers)}\n')
	if page:
		write_page(page, rooms)


main(*sys.argv[1:])
