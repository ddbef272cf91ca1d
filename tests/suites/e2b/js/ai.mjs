// SPDX-License-Identifier: Apache-2.0
// The AI SDK of Vercel: a tool that runs Python in a sandbox. The model is a list of steps.

import assert from 'node:assert/strict';
import { generateText, stepCountIs, tool } from 'ai';
import { MockLanguageModelV3 } from 'ai/test';
import { z } from 'zod';
import { Sandbox } from '@e2b/code-interpreter';

const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } };
const step = (content, unified) => ({ content: [content], finishReason: { unified }, usage, warnings: [] });
const runs = (code, i) => step({ type: 'tool-call', toolCallId: `call-${i}`, toolName: 'python', input: JSON.stringify({ code }) }, 'tool-calls');

if (process.argv[2] === undefined) {
	console.log('a tool that runs Python');
} else {
	const sandbox = await Sandbox.create({ timeoutMs: 120_000 });
	const python = tool({
		description: 'Runs Python', inputSchema: z.object({ code: z.string() }),
		execute: async ({ code }) => {
			const { text, results, logs, error } = await sandbox.runCode(code);
			return { text, printed: logs.stdout.join(''), error: error?.name, pictures: results.filter((r) => r.png).length };
		},
	});
	try {
		const steps = [...['x = 20\nprint("héllo")\nx', 'x + 22', '1 / 0', 'import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()'].map(runs), step({ type: 'text', text: 'done' }, 'stop')];
		const r = await generateText({ model: new MockLanguageModelV3({ doGenerate: async () => steps.shift() }), prompt: 'go', stopWhen: stepCountIs(9), tools: { python } });
		assert.equal(r.text, 'done');
		assert.deepEqual(r.steps.flatMap((s) => s.toolResults.map((t) => t.output)), [
			{ text: '20', printed: 'héllo\n', error: undefined, pictures: 0 }, { text: '42', printed: '', error: undefined, pictures: 0 },
			{ text: undefined, printed: '', error: 'ZeroDivisionError', pictures: 0 }, { text: undefined, printed: '', error: undefined, pictures: 1 },
		]);
	} finally {
		await sandbox.kill();
	}
}
