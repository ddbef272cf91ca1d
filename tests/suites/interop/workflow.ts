// SPDX-License-Identifier: Apache-2.0
// What a person does on the first day: upload a table, analyse it, get the chart, close.

import assert from 'node:assert/strict';
import { salesCsv } from '../../lib/data.ts';
import { facts } from '../../lib/session.ts';
import type { Client, Json, Profile, ToolResult } from './client.ts';

const SCRIPT = `import matplotlib
matplotlib.use("Agg")
import matplotlib.pyplot as plt
import pandas as pd
table = pd.read_csv("/mnt/data/sales.csv")
sums = table.groupby("region")["revenue"].sum()
sums.plot.bar(title="Revenue")
plt.savefig("/mnt/data/chart.png")
print(sums.to_string())
`;
const PNG = Buffer.from('89504e470d0a1a0a', 'hex');

const CODE_TOOLS = ['sandbox_upload_file', 'sandbox_run_python', 'sandbox_read_artifact', 'sandbox_list_artifacts', 'sandbox_close_session'];
const CLASSIC_TOOLS = ['create_sandbox', 'list_sandboxes', 'execute_python_code', 'install_package_in_sandbox', 'check_package_installation_status',
	'execute_terminal_command', 'upload_file_to_sandbox'];
const FULL_TOOLS = ['sandbox_run_python', 'sandbox_run_shell', 'sandbox_create', 'sandbox_list', 'sandbox_info', 'sandbox_delete', 'sandbox_list_files',
	'sandbox_read_file', 'sandbox_write_file', 'sandbox_edit_file', 'sandbox_add_file', 'sandbox_install_packages', 'sandbox_checkpoint', 'sandbox_restore',
	'sandbox_branch', 'sandbox_process'];
const ALL_TOOLS = [...new Set([...CODE_TOOLS, ...CLASSIC_TOOLS, ...FULL_TOOLS, 'delete_sandbox', 'sandbox_view_image', 'sandbox_fork', 'sandbox_list_packages',
	'sandbox_uninstall_packages'])];

/** The object of an answer: the first text block; what is structured must say the same. */
function object(what: string, r: ToolResult): Json {
	assert.equal(r.isError ?? false, false, `${what}: ${JSON.stringify(r.content).slice(0, 500)}`);
	assert.equal(r.content[0]?.type, 'text', what);
	const value = facts(r);
	assert.equal(value.error, undefined, `${what}: ${r.content[0]!.text}`);
	if (r.structuredContent !== undefined && r.content[0]!.text.startsWith('{'))
		assert.deepEqual(JSON.parse(r.content[0]!.text), value, `${what}: text and structured content differ`);
	return value;
}

async function download(link: string): Promise<Buffer> {
	const r = await fetch(link, { headers: { connection: 'close' } });
	assert.equal(r.status, 200, `${link}: ${r.status}`);
	assert.equal(r.headers.get('content-type'), 'image/png');
	return Buffer.from(await r.arrayBuffer());
}

export function checkTools(client: Client, profile: Profile): void {
	const tools = { code: CODE_TOOLS, classic: CLASSIC_TOOLS, full: FULL_TOOLS, all: ALL_TOOLS };
	assert.deepEqual([...client.tools].sort(), [...tools[profile]].sort());
}

export async function workflow(client: Client, profile: Profile): Promise<void> {
	checkTools(client, profile);
	const uploaded = object('upload', await client.call('sandbox_upload_file',
		{ filename: 'sales.csv', content_base64: Buffer.from(salesCsv).toString('base64') }));
	const { session_id } = uploaded;
	assert.equal(uploaded.path, '/mnt/data/sales.csv');

	const answer = await client.call('sandbox_run_python', { code: SCRIPT, session_id });
	const run = object('run', answer);
	assert.equal(run.session_id, session_id);
	assert.equal(run.exit_code, 0, run.stderr);
	assert.match(run.stdout, /North\s+11311\.25/);
	const chart = run.artifacts.find((a: Json) => a.filename === 'chart.png');
	assert.ok(chart, 'the chart is among the artifacts');
	assert.equal(chart.mime_type, 'image/png');
	const bytes = await download(chart.download_url);
	assert.ok(bytes.subarray(0, PNG.length).equals(PNG), 'a PNG');
	const images = answer.content.filter((c) => c.type === 'image');
	assert.equal(images.length, profile === 'all' ? 1 : 0, 'images in the content');
	for (const image of images)
		assert.ok(Buffer.from(image.data, 'base64').equals(bytes), 'the image of the content is that of the link');

	const listed = object('list', await client.call('sandbox_list_artifacts', { session_id }));
	assert.deepEqual(listed.artifacts.map((a: Json) => a.filename).sort(), ['chart.png', 'sales.csv']);
	const again = listed.artifacts.find((a: Json) => a.filename === 'chart.png');
	assert.ok((await download(again.download_url)).equals(bytes));

	const read = object('read', await client.call('sandbox_read_artifact', { session_id, path: '/mnt/data/chart.png' }));
	assert.equal(read.mime_type, 'image/png');
	assert.ok(Buffer.from(read.content_base64, 'base64').equals(bytes), 'the tool reads what the link gives');

	assert.deepEqual(object('close', await client.call('sandbox_close_session', { session_id })), { status: 'closed' });
	assert.equal((await fetch(chart.download_url, { headers: { connection: 'close' } })).status, 404, 'the link of a closed session');
}

/** For a client that is a new process for every call, over stdio, where a sandbox ends with its process: all in one run. */
export async function oneRun(client: Client, profile: Profile): Promise<void> {
	checkTools(client, profile);
	const code = `open("/mnt/data/sales.csv", "w").write(${JSON.stringify(salesCsv)})\n${SCRIPT}`;
	const run = object('run', await client.call('sandbox_run_python', { code }));
	assert.equal(run.exit_code, 0, run.stderr);
	assert.match(run.stdout, /North\s+11311\.25/);
	const chart = run.artifacts.find((a: Json) => a.filename === 'chart.png');
	assert.match(chart.download_url, /^http:\/\/localhost:\d+\/files\/.+\/chart\.png$/);
}

/** The first day with the second tool family: a sandbox, a table and a chart as files, links that open, a look around. */
export async function classicWorkflow(client: Client): Promise<void> {
	checkTools(client, 'classic');
	const before = await client.call('list_sandboxes', {});
	const known: Json[] = before.content.length === 0 ? [] : JSON.parse(before.content[0]!.text);
	const made = object('create', await client.call('create_sandbox', { name: 'first day' }));
	assert.equal(made.status, 'active');
	const { sandbox_id } = made;
	const listed = object('list', await client.call('list_sandboxes', {})) as unknown as Json[];
	assert.deepEqual(listed.map((s) => s.sandbox_id), [...known.map((s) => s.sandbox_id), sandbox_id]);
	const code = `open("sales.csv", "w").write(${JSON.stringify(salesCsv)})\n${SCRIPT}sums.to_csv("sums.csv")\n`;
	const run = object('execute', await client.call('execute_python_code', { sandbox_id, code }));
	assert.equal(run.exit_code, 0, run.stderr);
	assert.match(run.stdout, /North\s+11311\.25/);
	assert.deepEqual(run.files, ['/app/results/chart.png', '/app/results/sales.csv', '/app/results/sums.csv']);
	assert.ok((await download(run.file_links[0])).subarray(0, PNG.length).equals(PNG), 'a PNG');
	const look = object('terminal', await client.call('execute_terminal_command', { sandbox_id, command: 'head -1 sums.csv' }));
	assert.deepEqual(look, { stdout: 'region,revenue\n', stderr: '', exit_code: 0 });
}
