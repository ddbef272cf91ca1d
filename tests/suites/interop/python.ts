// SPDX-License-Identifier: Apache-2.0
// The official Python client of both generations, through python/driver.py.

import * as path from 'node:path';
import * as readline from 'node:readline';
import { within } from '../../lib/wait.ts';
import { interpreter, type Generation } from './environments.ts';
import { clientEnv, here, MODERN, program, stdioCommand, stdioEnv, url, type Client, type Era, type Json, type Target, type ToolResult,
	type Transport } from './client.ts';

const LINE_MS = 90_000;
const END_MS = 10_000;

export async function python(generation: Generation, transport: Transport, era: Era, target: Target): Promise<Client> {
	const how = {
		transport,
		era: era === 'modern' ? MODERN : era,
		command: stdioCommand(target),
		env: stdioEnv(target),
		url: url(target, transport),
		headers: target.headers,
	};
	const p = program([interpreter(generation), path.join(here, 'python', 'driver.py'), JSON.stringify(how)], clientEnv(), true);
	const lines = readline.createInterface({ input: p.child.stdout! })[Symbol.asyncIterator]();
	const next = async (what: string): Promise<Json> => {
		const line = await within(`${what} through Python`, lines.next(), LINE_MS).catch(async (e) => {
			await p.end();
			throw e;
		});
		if (line.done)
			throw new Error(`${what}: the client ended: ${p.stderr.split('\n').slice(-8).join('\n')}`);
		return JSON.parse(line.value);
	};
	const ready = await next('connect');
	return {
		revision: ready.ready,
		tools: ready.tools,
		async call(name, args) {
			p.child.stdin!.write(`${JSON.stringify({ name, arguments: args })}\n`);
			return (await next(name)) as ToolResult;
		},
		async close() {
			p.child.stdin!.end();
			await within('the end of the Python client', p.exit, END_MS).finally(() => p.end());
		},
	};
}
