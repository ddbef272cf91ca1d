// SPDX-License-Identifier: Apache-2.0
// What the SDKs can do beyond the workflow, with the product in profile `all`.

import assert from 'node:assert/strict';
import { scratch } from '../../lib/env.ts';
import { facts } from '../../lib/session.ts';
import { until } from '../../lib/wait.ts';
import { serve, type Json, type Target } from './client.ts';
import type { Case } from './keys.ts';
import { sdk1, sdk2, type SdkClient } from './sdk.ts';
import { workflow } from './workflow.ts';

const AT_ONCE = 50;
const FREE_MS = 10_000;
/** The SDKs take no message over 10 MiB on standard input, and an answer has a file twice, in base64: SANDBOX_MAX_LINE_BYTES. */
const LARGE = { stdio: 3 << 20, other: 9 << 20 };

interface Opener {
	name: string;
	open(target: Target): Promise<SdkClient>;
}

const openers: readonly Opener[] = [
	{ name: 'typescript-1 stdio', open: (t) => sdk1('stdio', t) },
	{ name: 'typescript-1 http', open: (t) => sdk1('http', t) },
	{ name: 'typescript-1 sse', open: (t) => sdk1('sse', t) },
	{ name: 'typescript-2 stdio modern', open: (t) => sdk2('stdio', 'modern', t) },
	{ name: 'typescript-2 http modern', open: (t) => sdk2('http', 'modern', t) },
];

const value = (r: Json): Json => facts(r);

async function run(c: SdkClient, code: string, session_id?: string): Promise<Json> {
	return value(await c.call('sandbox_run_python', session_id ? { code, session_id } : { code }));
}

const checks: Record<string, (c: SdkClient, name: string) => Promise<void>> = {
	async resources(c) {
		const { session_id } = await run(c, 'open("/mnt/data/note.txt", "w").write("hello")');
		const uri = `sandbox://${session_id}/note.txt`;
		const { resources } = (await c.sdk.listResources()) as Json;
		assert.ok(resources.some((r: Json) => r.uri === uri), uri);
		const { contents } = (await c.sdk.readResource({ uri })) as Json;
		assert.equal(contents[0].text, 'hello');
		await c.call('sandbox_delete', { session_id });
		await assert.rejects(async () => c.sdk.readResource({ uri }));
	},
	async prompts(c) {
		const { prompts } = (await c.sdk.listPrompts()) as Json;
		assert.deepEqual(prompts.map((p: Json) => p.name).sort(), ['analyse_data_file', 'debug_error', 'make_report']);
		const { messages } = (await c.sdk.getPrompt({ name: 'analyse_data_file', arguments: { file: 'sales.csv' } })) as Json;
		assert.match(messages[0].content.text, /sales\.csv/);
		const { completion } = (await c.sdk.complete({
			ref: { type: 'ref/prompt', name: 'make_report' },
			argument: { name: 'format', value: 'p' },
		})) as Json;
		assert.deepEqual(completion.values, ['pdf']);
	},
	async 'view an image'(c) {
		const { session_id } = await run(c, 'import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.savefig("/mnt/data/line.png")');
		// Alone: a client that finds structured content shows the model nothing else.
		const r = await c.call('sandbox_view_image', { session_id, path: '/mnt/data/line.png' });
		assert.deepEqual(r.content.map((block) => block.type), ['image'], JSON.stringify(r).slice(0, 300));
		assert.equal(r.structuredContent, undefined);
		await c.call('sandbox_delete', { session_id });
	},
	async 'refused calls'(c) {
		const bad = await c.call('sandbox_read_file', { session_id: 'none', path: '/mnt/data/none' });
		assert.equal(bad.isError, true);
		for (const key of ['error', 'message', 'hint'])
			assert.equal(typeof value(bad)[key], 'string', key);
		const code = value(await c.call('sandbox_list_artifacts', { session_id: 'none' }));
		assert.deepEqual(Object.keys(code), ['error', 'message', 'size_bytes', 'download_url']);
	},
	async progress(c) {
		const seen: number[] = [];
		const code = 'import time\nfor i in range(4):\n    print(i, flush=True)\n    time.sleep(1)';
		const r = await c.call('sandbox_run_python', { code }, { onprogress: (p) => seen.push(p.progress) });
		assert.equal(value(r).exit_code, 0);
		assert.ok(seen.length >= 1, 'progress was heard');
		assert.deepEqual(seen, [...new Set(seen)].sort((a, b) => a - b), 'and grew');
	},
	async cancel(c) {
		const { session_id } = await run(c, 'print(1)');
		const stop = new AbortController();
		const slow = c.call('sandbox_run_python', { code: 'import time\ntime.sleep(80)', session_id }, { signal: stop.signal });
		setTimeout(() => stop.abort(), 500);
		await assert.rejects(slow);
		await until('the session is free again', async () => (await run(c, 'print(2)', session_id)).stdout === '2\n', FREE_MS);
		await c.call('sandbox_delete', { session_id });
	},
	async 'many at once'(c) {
		const { session_id } = await run(c, 'open("/mnt/data/note.txt", "w").write("x")');
		const calls = Array.from({ length: AT_ONCE }, () => c.call('sandbox_list_artifacts', { session_id }));
		for (const r of await Promise.all(calls))
			assert.equal(value(r).artifacts[0].filename, 'note.txt');
		await c.call('sandbox_delete', { session_id });
	},
	async 'large file'(c, name) {
		const bytes = Buffer.alloc(name.includes('stdio') ? LARGE.stdio : LARGE.other, 'caisson ');
		const uploaded = value(await c.call('sandbox_upload_file', { filename: 'large.bin', content_base64: bytes.toString('base64') }));
		const { session_id } = uploaded;
		const read = value(await c.call('sandbox_read_artifact', { session_id, path: '/mnt/data/large.bin' }));
		assert.ok(Buffer.from(read.content_base64, 'base64').equals(bytes));
		await c.call('sandbox_delete', { session_id });
	},
};

async function using(o: Opener, target: Target, body: (c: SdkClient) => Promise<void>): Promise<void> {
	const client = await o.open(target);
	try {
		await body(client);
	} finally {
		await client.close();
	}
}

/** TARGET: a server in profile `all`. */
export function extraCases(target: Target): Case[] {
	return openers.flatMap((o) => Object.entries(checks).map(([name, check]) => ({
		name: `extras: ${o.name}, ${name}`,
		run: () => using(o, target, (c) => check(c, o.name)),
	})));
}

/** `caisson stdio` that shares a running server: the same workflow, and the server has its sandboxes. */
export function bridgeCases(): Case[] {
	return openers.filter((o) => o.name.includes('stdio')).map((o) => ({
		name: `bridge: ${o.name} through a running server`,
		async run() {
			const socket = `${scratch('socket')}/server.sock`;
			const server = await serve('all', { SANDBOX_SOCKET: socket });
			const target: Target = { profile: 'all', base: server.base, headers: {}, sseQuery: '', socket };
			try {
				await using(o, target, async (c) => {
					await workflow(c, 'all');
					const { session_id } = await run(c, 'open("/mnt/data/shared.txt", "w").write("x")');
					const other = await sdk1('http', target);
					const listed = value(await other.call('sandbox_list_artifacts', { session_id }));
					await other.close();
					assert.deepEqual(listed.artifacts?.map((a: Json) => a.filename), ['shared.txt'], JSON.stringify(listed));
				});
			} finally {
				await server.stop();
			}
		},
	}));
}
