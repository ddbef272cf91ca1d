# SPDX-License-Identifier: Apache-2.0
"""The OpenAI Agents SDK with its sandboxes of E2B. The model is a list of steps. Its workspace is /workspace, so the server has
SANDBOX_ROOT=on; with another root of the manifest, in /home/user, any server does."""
import io
import json
import tempfile
from pathlib import Path

from agents import Model, ModelResponse, RunConfig, Runner, Usage, set_tracing_disabled
from agents.extensions.sandbox.e2b import E2BSandboxClient, E2BSandboxClientOptions, E2BSandboxType
from agents.sandbox import Manifest, SandboxAgent, SandboxRunConfig
from agents.sandbox.entries import File
from agents.sandbox.snapshot import LocalSnapshotSpec
from job import job, main
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

set_tracing_disabled(True)


class Steps(Model):
	def __init__(self, *steps):
		self.steps, self.seen = list(steps), []

	async def get_response(self, system_instructions, input, *args, **more):
		given = input
		self.seen = [item['output'] for item in given if item.get('type') == 'function_call_output']
		name, arguments = self.steps.pop(0) if self.steps else (None, None)
		if name is None:
			text = ResponseOutputText(type='output_text', text='done', annotations=[])
			out = ResponseOutputMessage(id='m', type='message', role='assistant', status='completed', content=[text])
		else:
			n = 'call-%d' % len(self.steps)
			arguments = arguments(self.seen[-1]) if callable(arguments) else arguments
			out = ResponseFunctionToolCall(id=n, call_id=n, type='function_call', name=name, arguments=json.dumps(arguments))
		return ModelResponse(output=[out], usage=Usage(), response_id=None)

	def stream_response(self, *args, **more):
		raise NotImplementedError


def types(said):
	return {'session_id': int(said.split('session ID ')[1].split()[0]), 'chars': 'echo $((6 * 7))\n'}


async def work(kind, **manifest):
	manifest = Manifest(entries={'notes/a.txt': File(content='héllo\n'.encode()), 'run.sh': File(content=b'#!/bin/sh\necho ran\n')}, **manifest)
	model = Steps(('exec_command', {'cmd': 'pwd; cat notes/a.txt; echo err >&2; exit 3'}), ('exec_command', {'cmd': 'bash', 'tty': True, 'yield_time_ms': 1000}), ('write_stdin', types))
	client = E2BSandboxClient()
	options = E2BSandboxClientOptions(sandbox_type=kind, timeout=300, exposed_ports=(8000,))
	session = await client.create(manifest=manifest, options=options, snapshot=LocalSnapshotSpec(base_path=Path(tempfile.mkdtemp())))
	async with session:
		await Runner.run(SandboxAgent(name='a', model=model, instructions='x'), 'go', run_config=RunConfig(sandbox=SandboxRunConfig(session=session)))
		ran, _, typed = model.seen
		assert 'exited with code 3' in ran and manifest.root + '\nhéllo\nerr\n' in ran, ran
		assert '42' in typed, typed
		await session.write(Path('b.bin'), io.BytesIO(b'\0\xff'))
		assert (await session.read(Path('b.bin'))).read() == b'\0\xff' and await session.running()
		await session.mkdir(Path('d/e'), parents=True)
		assert {Path(one.path).name for one in await session.ls(Path('.'))} == {'b.bin', 'd', 'notes', 'run.sh'}
		assert (await session.exec('./run.sh')).stdout == b'ran\n'
		assert (await session.resolve_exposed_port(8000)).host.startswith('8000-')
	again = await client.resume(session.state)  # another sandbox with what was in the workspace of the first
	async with again:
		assert (await again.exec('cat notes/a.txt; wc -c <b.bin')).stdout == 'héllo\n2\n'.encode()
	await client.delete(again)


@job
async def an_agent_in_its_workspace():
	await work(E2BSandboxType.E2B)


@job
async def an_agent_in_the_home_folder():
	await work(E2BSandboxType.CODE_INTERPRETER, root='/home/user/work')


main()
