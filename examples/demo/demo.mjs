// SPDX-License-Identifier: Apache-2.0
// The worked example: a client of the official SDK starts `caisson stdio`, uploads a table, runs an
// analysis on it, and saves the results in ./caisson-demo. Exits 0 if every file is there and right.

import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import path from 'node:path';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';

const here = path.dirname(fileURLToPath(import.meta.url));
const top = path.resolve(here, '../..');
const server = process.env.CAISSON ?? path.join(top, 'build/caisson');
const output = path.resolve(process.argv[2] ?? 'caisson-demo');
const patience = { timeout: 120_000 };

// The files that the analysis must make, and how each begins.
const expected = {
	'rain.png': '\x89PNG',
	'report.pdf': '%PDF-',
	'weather.xlsx': 'PK',
	'weather.parquet': 'PAR1',
};

async function call(client, name, args) {
	const answer = await client.callTool({ name, arguments: args }, undefined, patience);
	const text = answer.content.find((c) => c.type === 'text')?.text ?? '';
	if (answer.isError)
		throw new Error(`${name}: ${text}`);
	const result = answer.structuredContent?.result ?? JSON.parse(text);
	if (result.error)
		throw Object.assign(new Error(`${name}: ${result.error}: ${result.message}`), result);
	return result;
}

// The bytes of a file: from the answer, or from its link if it is too large for that.
async function fetchArtifact(client, session_id, artifact) {
	try {
		const file = await call(client, 'sandbox_read_artifact', { session_id, path: artifact.path });
		return Buffer.from(file.content_base64, 'base64');
	} catch (problem) {
		const url = problem.download_url ?? artifact.download_url;
		if (problem.error !== 'artifact_too_large' || !url)
			throw problem;
		const response = await fetch(url);
		if (!response.ok)
			throw new Error(`${url}: ${response.status}`);
		return Buffer.from(await response.arrayBuffer());
	}
}

async function demo(client) {
	const table = await readFile(path.join(here, '../weather.csv'));
	const code = await readFile(path.join(here, 'analysis.py'), 'utf8');

	const uploaded = await call(client, 'sandbox_upload_file', {
		filename: 'weather.csv',
		content_base64: table.toString('base64'),
	});
	console.log(`uploaded ${table.length} bytes to ${uploaded.path} of ${uploaded.session_id}`);

	const { session_id } = uploaded;
	const run = await call(client, 'sandbox_run_python', { session_id, code });
	console.log(`ran ${code.split('\n').length} lines in ${run.duration_ms} ms, exit code ${run.exit_code}\n\n${run.stdout}`);
	if (run.exit_code !== 0)
		throw new Error(`the analysis failed:\n${run.stderr}`);

	await mkdir(output, { recursive: true });
	for (const artifact of run.artifacts) {
		const bytes = await fetchArtifact(client, session_id, artifact);
		const begin = expected[artifact.filename] ?? '';
		if (bytes.length !== artifact.size_bytes || !bytes.toString('latin1').startsWith(begin))
			throw new Error(`${artifact.filename} is not what was announced`);
		await writeFile(path.join(output, artifact.filename), bytes);
		console.log(`saved ${path.join(output, artifact.filename)} (${artifact.mime_type}, ${bytes.length} bytes)`);
	}
	const made = new Set(run.artifacts.map((a) => a.filename));
	const missing = Object.keys(expected).filter((name) => !made.has(name));
	if (missing.length > 0)
		throw new Error(`the analysis did not make ${missing.join(', ')}`);
	await call(client, 'sandbox_close_session', { session_id });
}

const client = new Client({ name: 'caisson-demo', version: '1.0.0' });
const transport = new StdioClientTransport({
	command: server,
	args: ['stdio', '--profile', 'code', '--log-level', 'ERROR'],
	env: { ...process.env },
	stderr: 'inherit',
});
try {
	await client.connect(transport, patience);
	await demo(client);
	await client.close();
} catch (problem) {
	console.error(`demo: ${problem.message}`);
	await client.close();
	process.exit(1);
}
