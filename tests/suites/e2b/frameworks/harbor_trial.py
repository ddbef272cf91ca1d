# SPDX-License-Identifier: Apache-2.0
"""Harbor: a whole trial, whose agent is the solution of the task; and what a trial does not use of its environment."""
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path

from harbor.environments.e2b import E2BEnvironment
from harbor.models.task.config import EnvironmentConfig, NetworkMode, NetworkPolicy
from harbor.models.trial.paths import TrialPaths
from job import job, main

DOCKERFILE = 'FROM e2bdev/base\nARG V=2\nENV GREETING="hello $V"\nWORKDIR /app\nCOPY data.txt .\nRUN mkdir /made && echo "%s" > /made/f\n'
TASK = '[environment]\ncpus = 1\nmemory_mb = 512\nbuild_timeout_sec = 300.0\n[agent]\ntimeout_sec = 60.0\n[verifier]\ntimeout_sec = 60.0\n'
CHECK = '''#!/bin/bash
[ "$(cat /app/answer)" = "hello 2 data root" ] && [ -d /made ] && echo 1 >/logs/verifier/reward.txt || echo 0 >/logs/verifier/reward.txt
'''


def put(top, **files):
	for name, text in files.items():
		path = top / name.replace('__', '/').replace('_', '.')
		path.parent.mkdir(parents=True, exist_ok=True)
		path.write_text(text)
		path.chmod(0o755)


@job
def a_trial_of_the_oracle():
	top = Path(tempfile.mkdtemp()) / 'greet'
	put(top, task_toml=TASK, instruction_md='Greet.', environment__Dockerfile=DOCKERFILE % uuid.uuid4(), environment__data_txt='data',
		solution__solve_sh='#!/bin/bash\necho "$GREETING $(cat data.txt) $(id -un)" >/app/answer\n', tests__test_sh=CHECK)
	harbor = str(Path(sys.executable).with_name('harbor'))
	said = subprocess.run([harbor, 'trial', 'start', '-p', str(top), '-a', 'oracle', '-e', 'e2b', '--trials-dir', str(top.parent / 'trials')],
		capture_output=True, text=True).stdout
	assert "Rewards: {'reward': 1.0}" in said, said


@job
async def files_and_networks_of_an_environment():
	top = Path(tempfile.mkdtemp())
	put(top, environment__Dockerfile='FROM e2bdev/base\nRUN echo %s\n' % uuid.uuid4(), tests__test_sh='#!/bin/sh\nid -un\n', tests__sub__a_txt='a')
	(top / 'tests/link').symlink_to('test.sh')
	paths = TrialPaths(trial_dir=top / 'trial')
	paths.mkdir()
	e = E2BEnvironment(environment_dir=top / 'environment', environment_name='files', session_id='files', trial_paths=paths, task_env_config=EnvironmentConfig(cpus=1, memory_mb=512))
	await e.start(force_build=True)
	try:
		await e.upload_dir(top / 'tests', '/tests')
		ran = await e.exec('/tests/link; readlink /tests/link; stat -c %U /tests/test.sh; echo err >&2; exit 3')
		assert (ran.stdout, ran.stderr, ran.return_code) == ('root\ntest.sh\nroot\n', 'err\n', 3), ran
		await e.upload_file(top / 'tests/test.sh', '/opt/deep/t.sh')
		ran = await e.exec('/opt/deep/t.sh', user='user')
		assert ran.stdout in ('user\n', 'sandbox\n'), ran
		await e.download_dir('/tests', top / 'got')
		assert (top / 'got/sub/a.txt').read_text() == 'a'
		assert await e.is_dir('/tests') and await e.is_file('/tests/test.sh') and not await e.is_file('/nope')
		await e._apply_network_policy(NetworkPolicy(network_mode=NetworkMode.NO_NETWORK))
		assert (await e.exec('echo still here')).stdout == 'still here\n'
	finally:
		await e.stop(delete=True)


main()
