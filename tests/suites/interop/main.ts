// SPDX-License-Identifier: Apache-2.0
// Every real client over every transport and in every era that it has, against the product: the same workflow in each
// cell. Prints a line for each case.

import * as os from 'node:os';
import * as path from 'node:path';
import { Count } from '../../lib/count.ts';
import { binary, newStateDir } from '../../lib/env.ts';
import { ensureImages } from '../../lib/images.ts';
import { options, sampled, sampledUsage } from '../../lib/options.ts';
import { play } from '../../lib/play.ts';
import { Sample } from '../../lib/sample.ts';
import { within } from '../../lib/wait.ts';
import { MODERN, serve, type Client, type Era, type Profile, type Target, type Transport } from './client.ts';
import { interpreter } from './environments.ts';
import { bridgeCases, extraCases } from './extras.ts';
import { fromStdio, remote, toStdio } from './gateway.ts';
import { inspector, mcpdo } from './inspector.ts';
import { KEY, keyCases, type Case } from './keys.ts';
import { older } from './older.ts';
import { python } from './python.ts';
import { sdk1, sdk2 } from './sdk.ts';
import { classicWorkflow, oneRun, workflow } from './workflow.ts';

const CASE_MS = 180_000;
const IMAGE = 'science'; // pandas and matplotlib

interface Row {
	name: string;
	open(target: Target): Promise<Client>;
	/** The era that has to come out, where the client tells. */
	era?: 'legacy' | 'modern';
	/** A new process for every call, with its own product. */
	oneShot?: boolean;
	/** A gateway that takes seconds to start and to end, and does the same in each profile: it runs in one. */
	oneProfile?: boolean;
	/** Goes through the server, so that a key matters. */
	remote: boolean;
}

function row(name: string, transport: Transport, era: Era, open: (t: Target) => Promise<Client>, more: Partial<Row> = {}): Row {
	return { name: `${name} ${transport} ${era}`, open, era: era === 'legacy' ? 'legacy' : 'modern', remote: transport !== 'stdio', ...more };
}

const transports: readonly Transport[] = ['stdio', 'http', 'sse'];
const eras: readonly Era[] = ['legacy', 'auto', 'modern'];

export const rows: readonly Row[] = [
	...transports.map((t) => row('typescript-1', t, 'legacy', (to) => sdk1(t, to))),
	...transports.map((t) => row('typescript-1.10', t, 'legacy', (to) => older(t, to))),
	...(['stdio', 'http'] as const).flatMap((t) => eras.map((e) => row('typescript-2', t, e, (to) => sdk2(t, e, to)))),
	...transports.map((t) => row('python-1', t, 'legacy', (to) => python(1, t, 'legacy', to))),
	...(['stdio', 'http'] as const).flatMap((t) => eras.map((e) => row('python-2', t, e, (to) => python(2, t, e, to)))),
	row('python-2', 'sse', 'legacy', (to) => python(2, 'sse', 'legacy', to)),
	...(['legacy', 'modern'] as const).map((e) => row('inspector', 'stdio', e, (to) => inspector('stdio', e, to), { oneShot: true })),
	...(['legacy', 'modern'] as const).map((e) => row('inspector', 'http', e, (to) => inspector('http', e, to))),
	row('inspector', 'sse', 'legacy', (to) => inspector('sse', 'legacy', to)),
	...(['legacy', 'modern'] as const).map((e) => row('inspector-mcpdo', 'stdio', e, (to) => mcpdo('stdio', e, to))),
	{ name: 'supergateway stdio→sse', open: (to) => fromStdio('sse', to), remote: false },
	{ name: 'supergateway stdio→streamableHttp', open: (to) => fromStdio('http', to), remote: false },
	{ name: 'supergateway sse→stdio', open: (to) => toStdio('sse', to), remote: true },
	{ name: 'supergateway streamableHttp→stdio', open: (to) => toStdio('http', to), remote: true },
	{ name: 'mcp-remote sse→stdio', open: (to) => remote('sse', to), oneProfile: true, remote: false },
	{ name: 'mcp-remote http→stdio', open: (to) => remote('http', to), oneProfile: true, remote: false },
];

/** What clients of the second family come by: its own transport, and the gateway that its README names. */
const CLASSIC_ROWS = ['typescript-1 sse legacy', 'python-1 sse legacy', 'supergateway sse→stdio'];

/** One client's way through the workflow; the connection ends in any case. */
async function cell(r: Row, target: Target): Promise<void> {
	const client = await r.open(target);
	try {
		if (client.revision && r.era && (client.revision === MODERN) !== (r.era === 'modern'))
			throw new Error(`speaks ${client.revision}`);
		await (r.oneShot ? oneRun : workflow)(client, target.profile);
	} finally {
		await client.close();
	}
}

const opt = options(`usage: tests/run interop [options]
  --only PART   only the cases with PART in their name
${sampledUsage}
CAISSON_TEST_BINARY names another binary.`, {
	only: { type: 'string', default: '' },
	...sampled,
});
const count = new Count();
const sample = new Sample(opt.sample, opt.seed);

/** JOBS at a time: each case has a client and a session of its own. */
async function run(cases: readonly Case[], jobs = 1): Promise<void> {
	const wanted = sample.order(cases.filter((c) => c.name.includes(opt.only)), (c) => c.name, () => false);
	await play(wanted.map((c) => ({ name: c.name, run: () => within(c.name, c.run(), CASE_MS) })), count, { jobs });
}

if (ensureImages(path.dirname(binary), IMAGE)) {
	console.log(`FAILED  the image ${IMAGE} could not be built`);
	count.add('failed');
	count.close();
}
for (const generation of [1, 2] as const) // beforehand, so that no case waits for pip
	interpreter(generation);

for (const profile of ['code', 'all'] as const satisfies readonly Profile[]) {
	const server = await serve(profile);
	const target: Target = { profile, base: server.base, headers: {}, sseQuery: '' };
	await run(rows.filter((r) => !r.oneProfile || profile === 'all').map((r) => ({ name: `${profile}: ${r.name}`, run: () => cell(r, target) })), os.availableParallelism());
	await run(profile === 'all' ? extraCases(target) : []);
	await run([{ name: `${profile}: the server lived through it and ends when told`, run: () => server.stop() }]);
	await server.program.end();
}

{
	const server = await serve('classic', { SANDBOX_STATE_DIR: newStateDir() });
	const target: Target = { profile: 'classic', base: server.base, headers: {}, sseQuery: '' };
	await run(rows.filter((r) => CLASSIC_ROWS.includes(r.name)).map((r) => ({
		name: `classic: ${r.name}`,
		run: async () => {
			const client = await r.open(target);
			await classicWorkflow(client).finally(() => client.close());
		},
	})));
	await server.stop();
}

await run(bridgeCases());

const server = await serve('code', { SANDBOX_API_KEY: KEY });
await run(keyCases(server.base, rows.filter((r) => r.remote), cell));
await server.stop();
count.close();
