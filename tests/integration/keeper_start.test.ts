// SPDX-License-Identifier: Apache-2.0
// What a killed keeper has left, against a daemon that the test itself is: it has as many containers as it likes, and says what a real one would say.

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as http from 'node:http';
import * as path from 'node:path';
import { after, describe, it } from 'node:test';
import { newStateDir, productUid, scratch } from '../lib/env.ts';
import { caisson } from '../lib/process.ts';
import { serve, type Json } from '../lib/session.ts';
import { until } from '../lib/wait.ts';

const STATE = '0123456789abcdef', DEAD = 'aaaaaaaaaaaaaaaa', OTHER = 'fedcba9876543210';
const REPLY_MAX = 4 << 20; // what a keeper reads of one answer

const labels = (state: string, instance: string): Json => ({ 'org.caisson.state': state, 'org.caisson.instance': instance });

/** Answers like a daemon of the Docker API, about what is in its two maps. */
class FakeDaemon {
	readonly host: string;
	readonly containers = new Map<string, Json>();
	readonly volumes = new Map<string, Json>();
	readonly calls: string[] = [];
	lacks: string[] = []; // what /info denies
	private readonly server: http.Server;

	constructor() {
		const socket = path.join(scratch('daemon'), 'socket');
		this.host = `unix://${socket}`;
		this.server = http.createServer((from, to) => {
			const [status, body] = this.answer(from.method!, new URL(from.url!, 'http://localhost'));
			from.resume().on('end', () => to.writeHead(status, { 'content-type': 'application/json' }).end(status === 204 ? undefined : JSON.stringify(body)));
		});
		this.server.listen(socket, () => fs.chmodSync(socket, 0o777));
	}

	private answer(method: string, url: URL): [number, unknown] {
		const at = url.pathname.replace(/^\/v1\.\d+/, ''), filters = JSON.parse(url.searchParams.get('filters') ?? '{}') as Record<string, string[]>;
		this.calls.push(`${method} ${at}`);
		const fits = (name: string, of: Json): boolean =>
			(filters.label ?? []).every((l) => `${l.split('=')[0]}=${of[l.split('=')[0]!]}` === l) && (filters.name ?? []).every((n) => name.includes(n));
		if (at === '/version')
			return [200, { ApiVersion: '1.43', MinAPIVersion: '1.24', Version: '24', Components: [{ Name: 'Engine' }] }];
		if (at === '/info')
			return [200, { ...{ OSType: 'linux', MemoryLimit: true, CpuCfsQuota: true, PidsLimit: true, CgroupVersion: '1', DefaultRuntime: 'runc', Runtimes: { runc: {} }, SecurityOptions: ['name=seccomp'] }, ...Object.fromEntries(this.lacks.map((k) => [k, false])) }];
		if (at === '/containers/json') {
			const all = [...this.containers].filter(([name, c]) => fits(name, c.Labels));
			return [200, all.slice(0, Number(url.searchParams.get('limit') ?? all.length)).map(([Id, c]) => ({ Id, ...c }))];
		}
		if (at === '/volumes')
			return [200, { Volumes: [...this.volumes].filter(([name, v]) => fits(name, v.Labels ?? {})).map(([Name, v]) => ({ Name, ...v })) }];
		const [, kind, name] = /^\/(containers|volumes)\/([\w.-]+)$/.exec(at) ?? [];
		if (method === 'DELETE' && kind)
			return [(kind === 'volumes' ? this.volumes : this.containers).delete(name!) ? 204 : 404, { message: 'no such thing' }];
		return [404, { message: `No such image: ${at}` }];
	}

	end(): void {
		this.server.closeAllConnections();
		this.server.close();
	}
}

/** A state folder that keepers have used before; the one with DEAD was killed. */
function usedBefore(id: string): string {
	const dir = newStateDir(), docker = path.join(dir, 'docker');
	fs.mkdirSync(docker, { mode: 0o711 });
	for (const [name, text] of [['id', id], [`${DEAD}.lock`, '']] as const)
		fs.writeFileSync(path.join(docker, name), text, { mode: 0o600 });
	const cells = path.join(docker, 'cells'), channel = path.join(cells, `caisson-${STATE}-${DEAD}-1`); // as earlier versions named the folder of channels
	fs.mkdirSync(channel, { recursive: true });
	fs.writeFileSync(path.join(channel, 'socket'), '');
	for (const p of [docker, path.join(docker, 'id'), path.join(docker, `${DEAD}.lock`), cells, channel])
		fs.chownSync(p, productUid, productUid);
	return dir;
}

const environment = (d: FakeDaemon, dir: string): Record<string, string> =>
	({ SANDBOX_ENGINE: 'docker', DOCKER_HOST: d.host, SANDBOX_STATE_DIR: dir, SANDBOX_IMAGE: 'missing', SANDBOX_POOL: '0' });

describe('the start of a keeper', () => {
	const daemons: FakeDaemon[] = [];
	const daemon = (): FakeDaemon => (daemons.push(new FakeDaemon()), daemons.at(-1)!);
	after(() => daemons.forEach((d) => d.end()));

	it('(slow) removes all that a killed one left: more containers than one answer has room for, and volumes without labels', async () => {
		const d = daemon();
		const Mounts = Array.from({ length: 20 }, (_, i) => ({ Type: 'bind', Source: `/var/lib/caisson/docker/parts/${i}`, Destination: 'x'.repeat(200) }));
		for (let i = 0; i < 1100; i++)
			d.containers.set(`${i}`.padStart(64, '0'), { Labels: labels(STATE, DEAD), Mounts });
		assert.ok(JSON.stringify([...d.containers]).length > REPLY_MAX);
		d.containers.set('f'.repeat(64), { Labels: labels(OTHER, DEAD) });
		d.volumes.set(`caisson-${STATE}-${DEAD}-1-data`, { Labels: labels(STATE, DEAD) });
		d.volumes.set(`caisson-${DEAD}-7-data`, { Labels: labels(STATE, DEAD) }); // as earlier versions named them
		d.volumes.set(`caisson-${STATE}-${DEAD}-2-venv`, { Labels: null }); // as Podman makes it for a late container
		const stays = [`caisson-${OTHER}-${DEAD}-2-venv`, `caisson-${STATE}-short`, `my-caisson-${STATE}-${DEAD}-2-venv`, 'caisson-notes'];
		for (const name of stays)
			d.volumes.set(name, { Labels: null });
		const s = await serve({ env: environment(d, usedBefore(STATE)) });
		await until('the end of what is ours', () => d.containers.size === 1 && d.volumes.size === stays.length, 30_000).catch((e: Error) => {
			throw new Error(`${e.message}: ${d.containers.size} containers, volumes ${[...d.volumes.keys()].join(' ')}`);
		});
		assert.deepEqual([...d.containers.keys()], ['f'.repeat(64)]);
		assert.deepEqual([...d.volumes.keys()], stays);
		await s.program.end();
	});
	for (const [what, id] of [['empty', ''], ['without an id', 'no id at all here\n'], ['cut off', STATE.slice(0, 7)]] as const)
		it(`works with an id file that is ${what}, and keeps the id that it makes`, async () => {
			const d = daemon(), dir = usedBefore(id), file = path.join(dir, 'docker/id');
			for (let i = 0, before = ''; i < 2; i++, before = fs.readFileSync(file, 'latin1')) {
				const s = await serve({ env: environment(d, dir) });
				assert.match(fs.readFileSync(file, 'latin1'), /^[0-9a-f]{16}$/);
				assert.ok(!before || fs.readFileSync(file, 'latin1') === before);
				await until('the end of old channels', () => fs.readdirSync(path.join(dir, 'docker/channels')).length === 0);
				assert.ok(!fs.existsSync(path.join(dir, 'docker/cells')));
				s.program.kill('SIGTERM');
				await s.program.exit;
			}
		});
	it('writes a bounded number of lines about what the daemon refuses', async () => {
		const d = daemon();
		const s = await serve({ profile: 'full', env: environment(d, usedBefore(STATE)) });
		for (let i = 0; i < 80; i++) {
			const r = await fetch(`${s.base}/api/v1/sandboxes`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{}' });
			assert.ok(!r.ok, 'the image is not there');
			await r.text();
		}
		const said = s.program.stderr.match(/the daemon answered 404/g)?.length ?? 0;
		assert.ok(said > 0 && said <= 60, `${said} lines for 80 requests`);
		await s.program.end();
	});
	it('refuses a setting that the daemon cannot enforce, with its name; where it can, and without the setting, it starts', async () => {
		const limits: [string, string, string][] = [['SANDBOX_MEMORY_LIMIT', '1g', 'MemoryLimit'], ['SANDBOX_CPU_LIMIT', '1', 'CpuCfsQuota'], ['SANDBOX_PIDS_LIMIT', '64', 'PidsLimit']];
		const d = daemon(), env = environment(d, usedBefore(STATE));
		const refused = async (setting: string, value: string, why: RegExp): Promise<void> => {
			const r = await caisson(['run', '-c', 'print(1)'], { env: { ...env, [setting]: value } });
			assert.equal(r.code, 78, `${setting}: ${r.stdout}${r.stderr}`);
			assert.match(r.stderr.toString(), why);
		};
		for (const [setting, value, key] of limits) {
			d.lacks = [key];
			await refused(setting, value, new RegExp(`${setting} was set and cannot be enforced`));
		}
		await refused('SANDBOX_TOTAL_MEMORY', '1g', /SANDBOX_TOTAL_MEMORY=1024m needs the native engine; remove it, and set SANDBOX_MEMORY_LIMIT/);
		await refused('SANDBOX_WORKSPACE', 'disk', /SANDBOX_WORKSPACE=disk needs the native engine/);
		await refused('SANDBOX_ROOT', 'on', /SANDBOX_ROOT=on needs the native engine, a server that root started/);
		const shown = await caisson(['config'], { env: { ...env, SANDBOX_ROOT: 'on', SANDBOX_WORKSPACE: 'disk' } });
		assert.equal(shown.code, 0, shown.stderr.toString()); // nor does any other verb that makes no sandboxes refuse
		for (const [lacks, more] of [[[], { ...Object.fromEntries(limits), SANDBOX_RUNTIME: 'runc', SANDBOX_LEVELS: 'standard=runc' }], [limits.map((l) => l[2]), {}]] as const) {
			d.lacks = [...lacks];
			const s = await serve({ env: { ...env, ...more } });
			await s.program.end();
		}
	});
});
