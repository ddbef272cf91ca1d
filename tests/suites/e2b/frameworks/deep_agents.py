# SPDX-License-Identifier: Apache-2.0
"""Deep Agents of LangChain with the backend langchain-e2b. The model is a list of messages."""
import e2b
from deepagents import create_deep_agent
from job import job, main
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_e2b import AsyncE2BSandbox, E2BSandbox


class Messages(GenericFakeChatModel):
	def bind_tools(self, tools, **more):
		return self


def agent(backend, *calls):
	messages = [AIMessage(content='', tool_calls=[{'name': name, 'args': args, 'id': 'call-%d' % i}]) for i, (name, args) in enumerate(calls)]
	return create_deep_agent(model=Messages(messages=iter(messages + [AIMessage(content='done')])), backend=backend)


def check(result, *words):
	said = [m.content for m in result['messages'] if isinstance(m, ToolMessage)]
	assert len(said) == len(words), said
	for text, word in zip(said, words):
		assert word in text, (word, text)


APP = '/home/user/app/a.py'


@job
def files_and_commands_of_an_agent():
	with e2b.Sandbox.create(timeout=120) as sandbox:
		made = agent(E2BSandbox(sandbox=sandbox),
			('write_file', {'file_path': APP, 'content': 'print("héllo", 6 * 7)\n'}),
			('execute', {'command': 'python3 app/a.py; echo err >&2; exit 3'}),
			('edit_file', {'file_path': APP, 'old_string': '6 * 7', 'new_string': '6 * 8'}),
			('read_file', {'file_path': APP}),
			('glob', {'pattern': '**/*.py', 'path': '/home/user'}),
			('grep', {'pattern': 'héllo', 'path': '/home/user'}),
			('edit_file', {'file_path': APP, 'old_string': 'print', 'new_string': '#' * 120000 + '\nprint'}),
			('execute', {'command': 'python3 app/a.py'}),
			('read_file', {'file_path': '/nope'}),
			('write_file', {'file_path': '/usr/forbidden', 'content': 'x'}),
			('execute', {'command': 'sleep 5', 'timeout': 1}))
		check(made.invoke({'messages': [('user', 'go')]}, {'recursion_limit': 100}),
			'Updated file', 'héllo 42\n\nerr\n\n[Command failed with exit code 3]', 'replaced 1', '6 * 8', 'app/a.py', APP, 'replaced 1', 'héllo 48',
			'file_not_found', 'invalid_path', 'timed out after 1 seconds')


@job
async def an_asynchronous_agent():
	sandbox = await e2b.AsyncSandbox.create(timeout=120)
	made = agent(AsyncE2BSandbox(sandbox=sandbox), ('write_file', {'file_path': '/home/user/a.txt', 'content': 'one'}), ('execute', {'command': 'cat a.txt'}),
		('grep', {'pattern': 'one', 'path': '/home/user'}))
	check(await made.ainvoke({'messages': [('user', 'go')]}), 'Updated file', 'one', '/home/user/a.txt')
	await sandbox.kill()


main()
