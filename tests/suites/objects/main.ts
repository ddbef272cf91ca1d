// SPDX-License-Identifier: Apache-2.0
// The object store of a fleet, with SeaweedFS (README.md).

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import * as fs from 'node:fs';
import * as http from 'node:http';
import * as path from 'node:path';
import { Count } from '../../lib/count.ts';
import { freePort, newStateDir, productUid, scratch, slowness, top } from '../../lib/env.ts';
import { options } from '../../lib/options.ts';
import { play, type Trial } from '../../lib/play.ts';
import { caisson, Program } from '../../lib/process.ts';
import { spawn } from 'node:child_process';
import { pythonEnvironment } from '../../lib/python.ts';
import { until } from '../../lib/wait.ts';

options('usage: tests/run objects   signed addresses, requests and `caisson doctor` with a real object store (SeaweedFS)', {});
const BUCKET = 'snapshots', ACCESS = 'AKIDOFTESTS', SECRET = randomBytes(30).toString('base64'), START_MS = 60_000 * slowness;
const weed = path.join(pythonEnvironment('objects', path.join(top, 'tests/suites/objects/requirements.txt')), 'weed');
const folder = scratch('objects'), count = new Count();
const ports = await Promise.all(Array.from({ length: 8 }, freePort)) as [number, number, number, number, number, number, number, number];
const endpoint = `http://127.0.0.1:${ports[0]}`;

function store(): Program {
	fs.writeFileSync(path.join(folder, 's3.json'), JSON.stringify({ identities: [{ name: 'fleet', credentials: [{ accessKey: ACCESS, secretKey: SECRET }], actions: ['Admin'] }] }));
	fs.mkdirSync(path.join(folder, 'data'), { recursive: true });
	return new Program(spawn(weed, ['-logtostderr=true', 'server', `-dir=${folder}/data`, '-ip=127.0.0.1', '-ip.bind=127.0.0.1', '-master.telemetry=false', '-master.volumeSizeLimitMB=64', '-volume.max=20', '-filer', '-s3',
		`-s3.config=${folder}/s3.json`, '-s3.port.iceberg=0', '-s3.autoCreateBucket=false', `-s3.port=${ports[0]}`, `-s3.port.grpc=${ports[1]}`, `-filer.port=${ports[2]}`, `-filer.port.grpc=${ports[3]}`,
		`-master.port=${ports[4]}`, `-master.port.grpc=${ports[5]}`, `-volume.port=${ports[6]}`, `-volume.port.grpc=${ports[7]}`], { stdio: ['ignore', 'pipe', 'pipe'], cwd: folder }));
}

async function isReady(program: Program): Promise<void> {
	await until('the store answers', () => {
		assert.equal(program.child.exitCode, null, program.stderr.slice(-2000));
		return fetch(endpoint).then((r) => r.status === 403, () => false);
	}, START_MS);
	await until('the bucket is there', () => spawnSync(weed, ['shell', `-master=127.0.0.1:${ports[4]}.${ports[5]}`, `-filer=127.0.0.1:${ports[2]}.${ports[3]}`],
		{ input: `s3.bucket.create -name ${BUCKET}\ns3.bucket.list\n`, encoding: 'utf8', cwd: folder }).stdout.includes(`  ${BUCKET}`), START_MS);
}

/** What the store keeps in a folder of the bucket. */
async function kept(where: string): Promise<unknown[]> {
	const r = await fetch(`http://127.0.0.1:${ports[2]}/buckets/${BUCKET}/${where}/`, { headers: { accept: 'application/json' } });
	return r.status === 404 ? [] : (await r.json() as { Entries: unknown[] | null }).Entries ?? [];
}

interface Row { id: string; state: string; value: string; mend?: string }

async function doctor(more: Record<string, string> = {}, secret = SECRET): Promise<{ row: Row; text: string }> {
	const credentials = path.join(scratch('credentials'), 'file');
	fs.writeFileSync(credentials, `[default]\naws_access_key_id = ${ACCESS}\naws_secret_access_key = ${secret}\n`, { mode: 0o600 });
	fs.chmodSync(path.dirname(credentials), 0o711);
	fs.chownSync(credentials, productUid, productUid);
	const r = await caisson(['doctor', '--json'], { env: {
		SANDBOX_STATE_DIR: newStateDir(), SANDBOX_ROLE: 'router', SANDBOX_OBJECTS_ENDPOINT: endpoint, SANDBOX_OBJECTS_BUCKET: BUCKET, SANDBOX_OBJECTS_PATH_STYLE: 'on', SANDBOX_OBJECTS_CREDENTIALS: credentials, ...more,
	} });
	const text = `${r.stdout}${r.stderr}`;
	return { row: (JSON.parse(String(r.stdout)) as { rows: Row[] }).rows.find((row) => row.id === 'objects')!, text };
}

/** What doctor says of a store that answers so, and what it asked. `null`: the connection ends without an answer. */
async function scripted(answer: (method: string, nth: number, body: string, request: http.IncomingMessage) => [number, string?] | null): Promise<{ row: Row; asked: string[] }> {
	const asked: string[] = [];
	const server = http.createServer((request, response) => {
		let body = '';
		request.on('data', (some) => body += some).on('end', () => {
			asked.push(request.method!);
			const said = answer(request.method!, asked.filter((m) => m === request.method).length, body, request);
			if (said)
				response.writeHead(said[0], { connection: 'close' }).end(said[1]);
			else
				request.socket.destroy();
		});
	});
	const port = await freePort();
	await new Promise<void>((done) => server.listen(port, '127.0.0.1', done));
	const { row } = await doctor({ SANDBOX_OBJECTS_ENDPOINT: `http://127.0.0.1:${port}` });
	server.closeAllConnections();
	server.close();
	return { row, asked };
}

const program = store();
await isReady(program);

const unit: Trial = {
	name: 'requests with signed addresses, and those that it refuses',
	run: async () => {
		const r = spawnSync(path.join(top, 'build/tests/unit/test_objects'), { encoding: 'utf8', env: { ...process.env, CAISSON_TEST_OBJECTS: `${endpoint} ${BUCKET} ${ACCESS} ${SECRET}` } });
		assert.equal(r.status, 0, r.stdout + r.stderr);
		assert.match(r.stdout + r.stderr, /OK \] test_real/);
		assert.deepEqual(await kept('caisson/11112222-3333-4444-8555-666677778888/blocks'), []);
	},
};
const trials: Trial[] = [unit, {
	name: 'doctor: a good store, in which nothing stays',
	run: async () => {
		const { row } = await doctor();
		assert.match(row.value, new RegExp(`^bucket ${BUCKET} at 127\\.0\\.0\\.1:${ports[0]}: writes, reads and deletes$`));
		assert.equal(row.state, 'note'); // it has no TLS
		assert.match(String(row.mend), /https:/);
		assert.deepEqual(await kept('caisson/doctor'), []);
	},
}, {
	name: 'doctor: a wrong secret, which is nowhere in its answer',
	run: async () => {
		const wrong = randomBytes(30).toString('base64');
		const { row, text } = await doctor({}, wrong);
		assert.match(row.value, /PUT caisson\/doctor\/[0-9a-f]{32}: the store answers 403 SignatureDoesNotMatch/);
		assert.equal(row.state, 'missing');
		assert.ok(!text.includes(wrong) && !text.includes('X-Amz-Signature'));
	},
}, {
	name: 'doctor: a bucket that is not there',
	run: async () => assert.match((await doctor({ SANDBOX_OBJECTS_BUCKET: 'another' })).row.value, /the store answers 404 NoSuchBucket/),
}, {
	name: 'doctor: nobody at the address',
	run: async () => {
		const { row } = await doctor({ SANDBOX_OBJECTS_ENDPOINT: `http://127.0.0.1:${await freePort()}` });
		assert.match(row.value, /PUT caisson\/doctor\/[0-9a-f]{32}: Couldn't connect to server/);
	},
}, {
	name: 'doctor: settings that are not whole, or of another role',
	run: async () => {
		assert.match((await doctor({ SANDBOX_OBJECTS_CREDENTIALS: '' })).row.value, /needs SANDBOX_OBJECTS_CREDENTIALS, too/);
		assert.match((await doctor({ SANDBOX_ROLE: 'all' })).row.value, /is for the routers of a fleet/);
	},
}, {
	name: 'doctor: one setting alone',
	run: async () => assert.match((await doctor({ SANDBOX_OBJECTS_ENDPOINT: '', SANDBOX_OBJECTS_BUCKET: '', SANDBOX_OBJECTS_CREDENTIALS: '', SANDBOX_OBJECTS_REGION: 'eu-central-1', SANDBOX_ROLE: 'all' })).row.value, /is for the routers of a fleet/),
}, {
	name: 'doctor: an account that may not list, so a missing object is refused',
	run: async () => {
		let text = '';
		const { row } = await scripted((method, nth, body) => {
			text = body || text;
			return method === 'GET' ? (nth === 1 ? [200, text] : [403, '<Error><Code>AccessDenied</Code></Error>']) : [method === 'PUT' ? 200 : 204];
		});
		assert.match(row.value, /the account needs s3:ListBucket.*the store answers 403 AccessDenied/);
		assert.equal(row.state, 'missing');
	},
}, {
	name: 'doctor: a store that copies for an address of an upload',
	run: async () => {
		const objects = new Map<string, string>();
		const { row } = await scripted((method, _nth, body, { headers, url }) => {
			const name = url!.split('?')[0]!, from = headers['x-amz-copy-source'];
			if (method === 'PUT')
				objects.set(name, from ? objects.get(String(from)) ?? '' : body);
			else if (method === 'DELETE')
				objects.delete(name);
			return objects.has(name) ? [200, objects.get(name)] : method === 'GET' ? [404, '<Code>NoSuchKey</Code>'] : [204];
		});
		assert.match(row.value, /writes, reads and deletes$/);
		assert.match(String(row.mend), /X-Amz-Copy-Source/);
		assert.equal(objects.size, 0);
	},
}, {
	name: 'doctor: an upload whose answer is lost is deleted',
	run: async () => {
		const { row, asked } = await scripted((method) => method === 'PUT' ? null : [204]);
		assert.match(row.value, /^PUT caisson\/doctor\//);
		assert.equal(row.state, 'missing');
		assert.equal(asked.at(-1), 'DELETE');
	},
}];
await play(trials, count);
await program.end();
count.close();
