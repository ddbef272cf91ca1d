// SPDX-License-Identifier: Apache-2.0
// The workflow of docs/rest.md with openapi-fetch and the types that openapi-typescript made of the description: a sandbox, a file, a
// run, a list, bytes back, an error. main.ts puts it beside paths.d.ts, checks its types and runs it.

import assert from 'node:assert/strict';
import createClient from 'openapi-fetch';
import type { components, paths } from './paths.d.ts';

const CSV = 'city,people\nPorto,230000\nOsaka,2700000\n';
const client = createClient<paths>({ baseUrl: process.argv[2]! });

/** What an answer has if all went well; otherwise what it says. */
function good<T>(answer: { data?: T; error?: components['schemas']['Problem'] }): T {
	assert.ok(answer.data !== undefined, answer.error?.detail);
	return answer.data;
}

const { id } = good(await client.POST('/api/v1/sandboxes', { body: {} }));
const file = { path: { id, path: 'deep/er/cities & towns.csv' } };
const put = good(await client.PUT('/api/v1/sandboxes/{id}/files/{path}', {
	params: file, body: CSV, bodySerializer: (text) => text, headers: { 'content-type': 'application/octet-stream' },
}));
assert.deepEqual(put, { path: file.path.path, size: CSV.length });
const run = good(await client.POST('/api/v1/sandboxes/{id}/runs', { params: { path: { id } }, body: { command: 'cat cit* | wc -l; cd /tmp', cwd: 'deep/er', wait: true } }));
assert.deepEqual([run.stdout, run.exit_code, run.ended_cwd], ['3\n', 0, '/tmp']);
const list = good(await client.GET('/api/v1/sandboxes/{id}/files', { params: { path: { id }, query: { path: 'deep/er' } } }));
assert.ok(typeof list === 'object', 'a text would be an archive');
assert.deepEqual(list.files.map((f) => [f.name, f.size]), [['cities & towns.csv', CSV.length]]);
const got = good(await client.GET('/api/v1/sandboxes/{id}/files/{path}', { params: file, parseAs: 'text' }));
assert.equal(got, CSV);
const table = good(await client.GET('/api/v1/sandboxes/{id}/preview', { params: { path: { id }, query: { path: file.path.path } } }));
assert.ok('columns' in table && table.rows.length === 2, JSON.stringify(table));
const moved = good(await client.PATCH('/api/v1/sandboxes/{id}/files/{path}', { params: file, body: { to: 'deep/towns.csv' } }));
assert.equal(moved.path, 'deep/towns.csv');
const wrong = await client.POST('/api/v1/sandboxes/{id}/runs', { params: { path: { id } }, body: { command: 'true', cwd: 'nowhere', wait: true } });
assert.equal(wrong.error?.code, 'invalid_path');
// @ts-expect-error The types refuse what the server would.
const refused = await client.POST('/api/v1/sandboxes/{id}/runs', { params: { path: { id } }, body: { command: 7 } });
assert.equal(refused.error?.code, 'invalid_argument');
assert.equal((await client.DELETE('/api/v1/sandboxes/{id}/files/{path}', { params: { path: { id, path: 'deep/towns.csv' } } })).response.status, 204);
assert.equal((await client.DELETE('/api/v1/sandboxes/{id}', { params: { path: { id } } })).response.status, 204);
console.log('held: a sandbox, a file, a run, a list, bytes back, a table, another place, an error, the end');
