// SPDX-License-Identifier: Apache-2.0
// A front that was taken over, against the keeper and a real daemon: programs of tests/integration speak the protocol, and every call that
// the keeper makes is judged on its way to the daemon.

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { spawn, spawnSync } from 'node:child_process';
import { binary, newStateDir } from '../../lib/env.ts';
import { Program } from '../../lib/process.ts';
import { using, type Json } from '../../lib/session.ts';
import { until } from '../../lib/wait.ts';
import type { EngineCase, World } from './cases.ts';
import { Watched } from './watched.ts';

const program = (name: string): string => path.join(path.dirname(binary), 'tests/integration', name);
const STRANGER = 'caisson-fedcba9876543210-1';

/** Everything that the daemon knows of what is not ours. */
function strangers(w: World): Json {
	const of = w.daemon.ask('GET', `/v1.41/containers/${STRANGER}/json`).body as Json, volume = w.daemon.ask('GET', `/v1.41/volumes/${STRANGER}`).body as Json;
	return { state: of.State, restarts: of.RestartCount, host: of.HostConfig, labels: of.Config?.Labels, volume };
}

/** A container that runs, with a volume, of another server with another state folder. */
function makeStranger(w: World): void {
	const Labels = { 'org.caisson.state': '0123456789abcdef', 'org.caisson.instance': 'fedcba9876543210' };
	assert.equal(w.daemon.ask('POST', '/v1.41/volumes/create', { Name: STRANGER, Labels }).status, 201);
	const r = w.daemon.ask('POST', `/v1.41/containers/create?name=${STRANGER}`, { Image: w.env.SANDBOX_IMAGE, Cmd: ['sleep', '1000'], Labels,
		HostConfig: { NetworkMode: 'none', Mounts: [{ Type: 'volume', Source: STRANGER, Target: '/mnt' }], Ulimits: ['nofile', 'nproc'].map((Name) => ({ Name, Soft: 1024, Hard: 1024 })) } });
	assert.equal(r.status, 201, JSON.stringify(r.body));
	assert.ok([204, 304].includes(w.daemon.ask('POST', `/v1.41/containers/${STRANGER}/start`).status));
}

/** The program NAME against a keeper whose calls are judged. */
async function attack(w: World, name: string, folder: string, args: string[], env: Record<string, string>): Promise<{ said: string; watched: Watched }> {
	const watched = new Watched(w.daemon, folder);
	try {
		const p = new Program(spawn(program(name), [...args, '--daemon', watched.host], { env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'pipe'] }));
		const e = await p.exit, said = e.stdout.toString() + e.stderr.toString();
		assert.equal(e.code, 0, said.slice(-3000));
		assert.deepEqual(watched.wrong, []);
		return { said, watched };
	} finally {
		watched.end();
	}
}

export const takenCases: EngineCase[] = [
	{
		name: 'a front that was taken over: whatever it sends ends its keeper at most; no call that a keeper never makes, others keep what they have',
		ms: 300_000,
		async run(w) {
			const before = { containers: w.daemon.containers(), volumes: w.daemon.volumes() };
			makeStranger(w);
			try {
				const theirs = strangers(w);
				const messages = await attack(w, 'monitor_abuse', '/nothing', [], { CAISSON_TEST_IMAGES: path.join(newStateDir(), 'images') });
				assert.match(messages.said, /^ok \d+ - harmless requests$/m);
				assert.equal(messages.watched.seen.get('create'), undefined, 'nothing of this makes a container');
				const { said, watched } = await attack(w, 'front_taken_over', '/tmp/caisson-taken-[A-Za-z0-9]{6}', ['--seconds', '20'], {});
				assert.match(said, /^ok 1 - \d+ rounds/m, said);
				assert.ok(watched.seen.get('create')! > 5 && watched.seen.get('DELETE')! > 5, JSON.stringify([...watched.seen]));
				assert.deepEqual(strangers(w), theirs);
			} finally {
				w.daemon.ask('DELETE', `/v1.41/containers/${STRANGER}?force=1`);
				w.daemon.ask('DELETE', `/v1.41/volumes/${STRANGER}`);
			}
			await until('the end of what it made', () => w.daemon.containers().length === before.containers.length, 30_000);
			assert.deepEqual([w.daemon.containers(), w.daemon.volumes()], [before.containers, before.volumes]);
		},
	},
	{
		name: 'no other user of the host sees where the init of a container connects',
		run: async (w) => {
			const state = newStateDir(), channels = path.join(state, 'docker/channels');
			for (const folder of [path.dirname(state), state])
				fs.chmodSync(folder, 0o755);
			await using('stdio', { profile: 'full', env: { ...w.env, SANDBOX_STATE_DIR: state, SANDBOX_POOL: '0' } }, async (s) => {
				await s.raw('sandbox_run_python', { code: 'print(1)' });
				const [channel] = fs.readdirSync(channels);
				const as = (...argv: string[]): string => spawnSync(argv[0]!, argv.slice(1), { encoding: 'utf8', uid: 65000, gid: 65000 }).stderr;
				assert.equal(as('ls', path.join(state, 'docker/parts')), '', 'the way there is open');
				assert.match(as('ls', channels), /Permission denied/);
				assert.match(as('ls', path.join(channels, channel!, 'socket')), /Permission denied/);
			});
		},
	},
];
