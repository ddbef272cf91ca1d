# SPDX-License-Identifier: Apache-2.0
"""Jobs of jobs.py about changes of files."""
import time

import e2b


def add(job, raises):
	@job()
	def watch(s):
		s.files.make_dir('w/sub')
		watcher = s.files.watch_dir('w', recursive=True)
		s.files.write('w/sub/new.txt', 'x')
		seen, until = [], time.monotonic() + 10
		while not any(one.name == 'sub/new.txt' for one in seen):
			assert time.monotonic() < until, seen
			seen += watcher.get_new_events()
		watcher.stop()
		raises(e2b.NotFoundException, s.files.watch_dir, 'nope')

	@job(since=(2, 50))
	def watch_with_entries(s):
		def event(kind):
			until = time.monotonic() + 10
			while not (found := [one for one in watcher.get_new_events() if one.name == 'f' and one.type.value == kind]):
				assert time.monotonic() < until, kind
			return found[0].entry
		s.files.make_dir('w')
		watcher = s.files.watch_dir('w', include_entry=True)
		s.commands.run('printf four > w/f')
		entry = event('create')
		assert (entry.path, entry.size, entry.type.value) == ('/home/user/w/f', 4, 'file'), entry
		s.commands.run('rm w/f')
		assert event('remove') is None

	@job()
	def watch_own_changes(s):
		def seen():  # at once: nothing is waited for
			return [(one.name, one.type.value) for one in watcher.get_new_events()]
		s.files.make_dir('w')
		watcher = s.files.watch_dir('w', recursive=True)
		s.files.write('w/new.txt', 'x')
		assert seen() == [('new.txt', 'create'), ('new.txt', 'chmod'), ('new.txt', 'write')]
		s.files.make_dir('w/sub')
		s.files.write('w/sub/deep', 'x')
		found = seen()
		assert ('sub', 'create') in found and ('sub/deep', 'write') in found, found
		s.files.write('w/new.txt', 'y')
		assert seen() == [('new.txt', 'write')]
		s.files.rename('w/new.txt', 'w/old.txt')
		found = seen()
		assert ('new.txt', 'rename') in found, found
		s.files.remove('w/old.txt')
		assert seen() == [('old.txt', 'remove')]
		watcher.stop()
		watcher = s.files.watch_dir('/home/user')
		s.files.write('#15', 'x')
		assert [name for name, kind in seen()] == ['#15'] * 3  # what has no name yet is not told
