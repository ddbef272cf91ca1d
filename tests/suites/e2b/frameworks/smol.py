# SPDX-License-Identifier: Apache-2.0
"""smolagents: an agent whose code runs in a sandbox. The model is a list of steps."""
from job import job, main
from smolagents import CodeAgent, tool
from smolagents.models import ChatMessage, MessageRole, Model
from smolagents.monitoring import TokenUsage


class Steps(Model):
	def __init__(self, *steps):
		super().__init__(model_id='steps')
		self.steps = list(steps)

	def generate(self, messages, **more):
		text = 'Thought: go on.\n<code>\n%s\n</code>' % self.steps.pop(0)
		return ChatMessage(role=MessageRole.ASSISTANT, content=text, token_usage=TokenUsage(1, 1))


@tool
def triple(n: int) -> int:
	"""Multiplies by three.

	Args:
		n: the number
	"""
	return 3 * n


@job
def an_agent_with_a_tool():
	model = Steps('x = triple(n=7)\nprint("x is", x, given["pair"])', '1 / 0', 'import pandas as pd\npd.DataFrame({"a": [x + 1]})',
		'from PIL import Image\nImage.new("RGB", (3, 2), "red")', 'final_answer({"x": x, "set": {1, 2}, "bytes": b"x"})')
	with CodeAgent(tools=[triple], model=model, executor_type='e2b', verbosity_level=0, additional_authorized_imports=['pandas', 'PIL']) as agent:
		answer = agent.run('go', additional_args={'given': {'pair': (1, 2)}})
		called, failed, table, picture = agent.memory.steps[1:5]
	assert answer == {'x': 21, 'set': {1, 2}, 'bytes': b'x'}, answer
	assert 'x is 21' in called.observations and '(1, 2)' in called.observations, called.observations
	assert 'ZeroDivisionError' in str(failed.error), failed.error
	assert table.action_output == {'a': [22]} and picture.action_output.size == (3, 2), (table, picture)


main()
