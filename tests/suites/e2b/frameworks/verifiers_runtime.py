# SPDX-License-Identifier: Apache-2.0
"""verifiers: its runtime, as its environments use it. The image is one that the operator has downloaded."""
import os

from job import job, main
from verifiers.v1.runtimes.e2b import E2BConfig, E2BRuntime


@job
async def a_runtime():
	runtime = E2BRuntime(E2BConfig(image=os.environ['VERIFIERS_IMAGE']), name='job')
	await runtime.start()
	try:
		ran = await runtime.run(['sh', '-c', 'id -un; pwd; echo "$A $PATH"; echo err >&2; exit 5'], {'A': 'b c', 'PATH': '/x:/usr/bin:/bin'})
		assert (ran.stdout, ran.stderr, ran.exit_code) == ('root\n/app\nb c /x:/usr/bin:/bin\n', 'err\n', 5), ran
		ran = await runtime.run_program(['sh', '-c', 'sleep 1; echo out; exit 4'], {})
		assert (ran.stdout, ran.exit_code) == ('out\n', 4), ran
		data = bytes(range(256))
		await runtime.write('d/f', data)
		await runtime.write('/opt/x/y', b'z')
		assert await runtime.read('d/f') == data
		ran = await runtime.run(['stat', '-c', '%U', '/opt/x/y', 'd/f'], {})
		assert ran.stdout == 'root\nroot\n', ran
		process = await runtime.open_process(['head', '-c', '8'], {})
		await process.write(b'\xff\0hello\nmore')
		assert b''.join([part async for part in process.stdout]) == b'\xff\0hello\n'
		assert await process.wait() == 0
		await runtime.run_background(['python3', '-m', 'http.server', '8000'], {}, '/tmp/log')
		assert '8000-' in await runtime.expose(8000)
	finally:
		await runtime.stop()


main()
