// SPDX-License-Identifier: Apache-2.0
// A container of the server: started with the flags of a compose file, asked over HTTP in its own network namespace.

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { spawnSync } from 'node:child_process';
import { top } from '../../lib/env.ts';
import type { Daemon } from '../../lib/daemon.ts';
import type { Json } from '../../lib/session.ts';
import { until } from '../../lib/wait.ts';

export const folder = path.join(top, 'packaging/container');
export const KEY = 'a key of these tests';

export interface Said {
	code: number | null;
	stdout: string;
	stderr: string;
}

type Value = string | string[] | Record<string, string>;

/** The service of a compose file of ours. These have two levels below it: texts, lists of texts, and one object of texts. */
export function service(file: string): Map<string, Value> {
	const found = new Map<string, Value>();
	let key = '', inside = false;
	const plain = (s: string): string => s.replace(/^"(.*)"$/, '$1');
	for (const line of fs.readFileSync(path.join(folder, file), 'utf8').split('\n')) {
		if (/^\S/.test(line))
			inside = line === 'services:';
		const [, name, value] = /^ {4}([a-z_]+):(?: (.+))?$/.exec(line) ?? [];
		const item = /^ {6}- (.+)$/.exec(line)?.[1], [, variable, text] = /^ {6}([A-Z_]+): (.+)$/.exec(line) ?? [];
		if (!inside || /^\s*#|^\s*$|^services:$|^ {2}caisson:$/.test(line))
			continue;
		if (name) {
			key = name;
			if (value)
				found.set(key, plain(value));
		} else if (item) {
			found.set(key, [...(found.get(key) as string[] | undefined ?? []), plain(item)]);
		} else if (variable) {
			found.set(key, { ...(found.get(key) as Record<string, string> | undefined ?? {}), [variable]: plain(text!) });
		} else {
			throw new Error(`${file}: a line of a form that the tests do not know: ${line}`);
		}
	}
	return found;
}

/** The same as options of `docker run`. What is not known is an error: a flag that the tests leave out would be tested by nobody. */
export function flags(file: string, volume: string): string[] {
	const argv: string[] = [];
	for (const [key, value] of service(file)) {
		const list = Array.isArray(value) ? value : [];
		const each = (option: string): number => argv.push(...list.flatMap((v) => [option, v]));
		if (key === 'user')
			argv.push('--user', value as string);
		else if (key === 'read_only' && value === 'true')
			argv.push('--read-only');
		else if (key === 'stop_grace_period')
			argv.push('--stop-timeout', String(parseInt(value as string, 10)));
		else if (key === 'tmpfs')
			each('--tmpfs');
		else if (key === 'cap_drop')
			each('--cap-drop');
		else if (key === 'cap_add')
			each('--cap-add');
		else if (key === 'devices')
			each('--device');
		else if (key === 'device_cgroup_rules')
			each('--device-cgroup-rule');
		else if (key === 'security_opt')
			argv.push(...list.flatMap((v) => ['--security-opt', v.replace(/^seccomp=/, `seccomp=${folder}/`)]));
		else if (key === 'volumes')
			argv.push(...list.flatMap((v) => ['--volume', `${volume}:${v.split(':')[1]}`]));
		else if (key === 'environment')
			argv.push('--env', `SANDBOX_API_KEY=${KEY}`);
		else if (!['image', 'restart', 'ports'].includes(key))
			throw new Error(`${file}: '${key}' is not known to the tests`);
	}
	return argv;
}

/** ARGV without the option NAME and its VALUE (a part of it). */
export function without(argv: string[], name: string, value: string): string[] {
	const at = argv.findIndex((a, i) => a === name && argv[i + 1]!.includes(value));
	assert.ok(at >= 0, `${name} ${value} is among the flags`);
	return argv.toSpliced(at, 2);
}

/** `docker ARGV` with the daemon of this suite. */
export function docker(d: Daemon, argv: string[], input?: string): Said {
	const r = spawnSync('docker', ['--host', d.host, ...argv], {
		encoding: 'utf8', input, timeout: 120_000, maxBuffer: 1 << 26, env: { PATH: '/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/bin', HOME: d.folder } });
	return { code: r.status, stdout: r.stdout ?? '', stderr: (r.stderr ?? '') + (r.error ? String(r.error) : '') };
}

export class Box {
	readonly daemon: Daemon;
	readonly name: string;

	constructor(daemon: Daemon, name: string) {
		this.daemon = daemon;
		this.name = name;
	}

	/** A server in a container that is ready. */
	static async start(d: Daemon, name: string, argv: string[], image: string): Promise<Box> {
		const box = new Box(d, name);
		const r = docker(d, ['run', '--detach', '--name', name, '--network', 'none', '--health-interval', '1s', ...argv, image]);
		assert.equal(r.code, 0, r.stderr);
		await box.ready();
		return box;
	}

	async ready(): Promise<void> {
		await until('the server in the container', () => {
			assert.equal(this.state().Status, 'running', this.logs());
			return this.exec('caisson', 'ps', '--health').code === 0;
		}, 30_000).catch((e: unknown) => {
			throw new Error(`${String(e)}\n${this.logs()}`);
		});
	}

	inspect(): Json {
		return (JSON.parse(docker(this.daemon, ['inspect', this.name]).stdout) as Json[])[0]!;
	}

	state(): Json {
		return this.inspect().State as Json;
	}

	logs(): string {
		const r = docker(this.daemon, ['logs', this.name]);
		return r.stdout + r.stderr;
	}

	exec(...argv: string[]): Said {
		return docker(this.daemon, ['exec', this.name, ...argv]);
	}

	/** A request to the server's REST API; the JSON of its answer. */
	ask(method: string, what: string, body?: unknown): Json {
		const r = spawnSync('nsenter', [`--net=/proc/${this.state().Pid as number}/ns/net`, '--', 'curl', '-sS', '--max-time', '60', '-X', method, '-H', `X-API-Key: ${KEY}`,
			...(body === undefined ? [] : ['-H', 'Content-Type: application/json', '-d', JSON.stringify(body)]), `http://127.0.0.1:8181/api/v1${what}`], { encoding: 'utf8', maxBuffer: 1 << 26 });
		assert.equal(r.status, 0, r.stderr);
		return r.stdout === '' ? {} : JSON.parse(r.stdout) as Json;
	}

	/** Runs CODE in the sandbox ID and gives the run. */
	run(id: string, code: string): Json {
		return this.ask('POST', `/sandboxes/${id}/runs`, { code, wait: true });
	}

	/** The id of a new sandbox. */
	make(options: Record<string, unknown> = {}): string {
		const made = this.ask('POST', '/sandboxes', options);
		assert.equal(typeof made.id, 'string', JSON.stringify(made));
		return made.id as string;
	}

	/** `docker stop`: the milliseconds that it took, and the status of the first process. */
	stop(): { ms: number; code: number } {
		const begin = performance.now();
		assert.equal(docker(this.daemon, ['stop', this.name]).code, 0);
		return { ms: performance.now() - begin, code: this.state().ExitCode as number };
	}

	remove(): void {
		assert.equal(docker(this.daemon, ['rm', '--force', this.name]).code, 0);
	}
}
