# SPDX-License-Identifier: Apache-2.0
"""Jobs of jobs.py about what is kept of a sandbox: by a pause without its memory, in snapshots and forks."""
import time

import e2b
from e2b import Sandbox


def add(job, raises):
	@job(since=(2, 60))
	def a_pause_that_keeps_files_alone(s):
		def boot(box):
			return box.files.read('/proc/sys/kernel/random/boot_id')
		s.files.write('kept', 'yes')
		first = boot(s)
		s.pause()
		assert boot(s.connect()) == first
		s.commands.run('sleep 100', background=True)
		s.pause(keep_memory=False)
		again = s.connect()
		assert boot(again) != first and again.files.read('kept') == 'yes' and again.commands.list() == []
		other = Sandbox.create(timeout=1, lifecycle={'on_timeout': {'action': 'pause', 'keep_memory': False}})
		first = boot(other)
		until = time.monotonic() + 20
		while other.get_info().state != e2b.SandboxState.PAUSED:
			assert time.monotonic() < until
			time.sleep(0.1)
		assert boot(other.connect()) != first
		other.kill()

	@job(since=(2, 60))
	def snapshots_and_forks(s):
		s.files.write('f', 'snap')
		one = s.create_snapshot(name='job-' + s.sandbox_id)
		s.files.write('f', 'later')
		assert [x.snapshot_id for x in Sandbox.list_snapshots(name='job-' + s.sandbox_id).next_items()] == [one.snapshot_id]
		assert Sandbox.list_snapshots(name='job-').next_items() == []
		for name in (one.snapshot_id, 'job-' + s.sandbox_id):
			made = Sandbox.create(name, timeout=60, envs={'FROM': 'snapshot'})
			assert made.files.read('f') == 'snap' and made.commands.run('echo $FROM').stdout == 'snapshot\n'
			made.kill()
		forks = s.fork(count=2)
		assert [made.files.read('f') for made in forks] == ['later', 'later']
		for made in forks:
			made.kill()
		assert Sandbox.delete_snapshot(one.snapshot_id) and not Sandbox.delete_snapshot(one.snapshot_id)
		raises(e2b.SandboxException, Sandbox.create, one.snapshot_id)
