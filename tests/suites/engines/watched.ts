// SPDX-License-Identifier: Apache-2.0
// A socket between a keeper and the daemon: every call is judged against what a keeper may ask, and passed on whatever it is. A test may
// have some of them answered otherwise.

import * as http from 'node:http';
import * as path from 'node:path';
import { scratch } from '../../lib/env.ts';
import type { Daemon } from '../../lib/daemon.ts';
import type { Json } from '../../lib/session.ts';

const NAME = 'caisson-[0-9a-f]{16}-[0-9a-f]{16}-[0-9]+';
const OURS = 'filters=%7B%22name%22%3A%5B%22caisson-%22%5D%7D', FILTER = 'filters=%7B%22label%22%3A%5B%22org\\.caisson\\.state%3D[0-9a-f]{16}%22%5D%7D';
const calls = [
	'GET /version', 'GET /info', 'GET /images/[a-z0-9][a-z0-9._-]*/json', `GET /containers/json\\?all=1&limit=512&${FILTER}`, `GET /volumes\\?${OURS}`,
	`POST /containers/create\\?name=${NAME}`, `POST /containers/(${NAME})/(?:start|update)`, `DELETE /containers/(${NAME}|[0-9a-f]{64})\\?force=1&v=1`,
	'POST /volumes/create', `DELETE /volumes/(${NAME})-(?:data|venv)`,
].map((c) => new RegExp(`^${c.replace(' ', ' (?:/v1\\.[0-9]+)?')}$`));

const OWN = ['Image', 'Hostname', 'User', 'Entrypoint', 'Cmd', 'WorkingDir', 'Tty', 'OpenStdin', 'AttachStdin', 'AttachStdout', 'AttachStderr', 'NetworkDisabled', 'Healthcheck', 'Labels', 'StopSignal', 'Env', 'HostConfig'];
const HOST = ['NetworkMode', 'CapDrop', 'ReadonlyRootfs', 'SecurityOpt', 'Memory', 'MemorySwap', 'NanoCpus', 'PidsLimit', 'ShmSize', 'Ulimits', 'Tmpfs', 'IpcMode', 'CgroupnsMode', 'PidMode', 'Privileged', 'PublishAllPorts',
	'Init', 'LogConfig', 'RestartPolicy', 'Mounts', 'Sysctls', 'MaskedPaths', 'Runtime'];
const UPDATE = ['Memory', 'MemorySwap', 'NanoCpus', 'PidsLimit'];
const others = (o: Json, known: string[]): string[] => Object.keys(o).filter((k) => !known.includes(k));

/** What becomes of a call that came COUNT times before: that status is its answer and the daemon hears nothing of it; or the keeper gets no
 * answer, and the daemon hears of it after so many ms, or when passOn() is called. */
export type Meddle = (call: string, count: number) => { status: number } | { late: number | 'held' } | undefined;

export class Watched {
	readonly wrong: string[] = [];
	/** How often each kind of call came: GET, POST create … */
	readonly seen = new Map<string, number>();
	readonly host: string;
	private readonly server: http.Server;
	private readonly made = new Set<string>();
	private readonly waiting: (() => unknown)[] = [];
	/** The folder that containers may have mounts of, as a pattern. */
	private readonly folder: string;
	/** Calls that the daemon is to hear of later. */
	readonly held = new Set<string>();
	/** Calls that the daemon has answered late. */
	readonly late = new Set<string>();

	constructor(daemon: Daemon, folder: string, meddle: Meddle = () => undefined) {
		const counts = new Map<string, number>();
		const socket = path.join(scratch('watched'), 'socket'), to = path.join(daemon.folder, 'socket');
		this.folder = folder;
		this.host = `unix://${socket}`;
		this.server = http.createServer((from, answer) => {
			const parts: Buffer[] = [];
			from.on('data', (b: Buffer) => parts.push(b));
			from.on('end', () => {
				const body = Buffer.concat(parts);
				this.judge(from.method!, from.url!, body.toString());
				const call = `${from.method} ${from.url}`, count = counts.get(call) ?? 0, other = meddle(call, count);
				counts.set(call, count + 1);
				if (other && 'status' in other) {
					answer.writeHead(other.status, { 'content-type': 'application/json' }).end('{"message":"not now"}');
					return;
				}
				if (other) {
					const pass = (): unknown => http.request({ socketPath: to, method: from.method, path: from.url, headers: from.headers }, (r) => r.resume().on('end', () => this.late.add(call))).end(body);
					this.held.add(call);
					answer.destroy();
					if (other.late === 'held')
						this.waiting.push(pass);
					else
						setTimeout(pass, other.late);
					return;
				}
				const on = http.request({ socketPath: to, method: from.method, path: from.url, headers: from.headers }, (r) => {
					answer.writeHead(r.statusCode!, r.headers);
					r.pipe(answer);
					if (/\/containers\/create/.test(from.url!))
						r.on('data', (b: Buffer) => this.made.add(/"Id":"([0-9a-f]{64})"/.exec(b.toString())?.[1] ?? ''));
				});
				on.on('error', () => answer.destroy());
				on.end(body);
			});
		});
		this.server.listen(socket);
	}

	private judge(method: string, url: string, body: string): void {
		const call = `${method} ${url}`, known = calls.find((c) => c.test(call));
		const wrong = (what: string): void => void this.wrong.push(`${call}: ${what}: ${body.slice(0, 3000)}`);
		if (!known)
			return wrong('no call of a keeper');
		const of = known.exec(call)![1];
		if (of && !this.made.has(of))
			return wrong('of something that no keeper has made');
		const what = url.includes('create') ? 'create' : url.includes('update') ? 'update' : method;
		this.seen.set(what, (this.seen.get(what) ?? 0) + 1);
		const b = body ? JSON.parse(body) as Json : {};
		if (what === 'update' && others(b, UPDATE).length > 0)
			wrong('more than limits');
		if (what === 'create' && url.includes('/volumes/')) {
			this.made.add(String(b.Name).replace(/-(data|venv)$/, ''));
			if (!new RegExp(`^${NAME}-(data|venv)$`).test(b.Name) || b.Driver !== 'local' || b.DriverOpts.type !== 'tmpfs' || b.DriverOpts.device !== 'tmpfs' || !/^[a-z0-9_,=]+$/.test(b.DriverOpts.o))
				wrong('another kind of volume');
		} else if (what === 'create') {
			const name = new URL(url, 'http://x').searchParams.get('name')!;
			this.made.add(name);
			this.container(name, b, wrong);
		}
	}

	private container(name: string, b: Json, wrong: (what: string) => void): void {
		const h = b.HostConfig as Json;
		const more = [...others(b, OWN), ...others(h, HOST)];
		if (more.length > 0)
			wrong(`options: ${more}`);
		if (h.Privileged !== false || h.NetworkMode !== 'none' || h.PidMode !== '' || h.IpcMode !== 'private' || h.ReadonlyRootfs !== true || String(h.CapDrop) !== 'ALL' || b.User !== '1000:1000' || b.Env.length > 0 ||
			b.Entrypoint[0] !== '/caisson/init' || !h.SecurityOpt.includes('no-new-privileges') || !h.SecurityOpt.some((o: string) => /^seccomp=[{/]/.test(o)) || h.MemorySwap !== h.Memory || !(h.PidsLimit > 0))
			wrong('a wall is missing');
		if (!/^sha256:[0-9a-f]{64}$|^[0-9a-f]{64}$/.test(b.Image))
			wrong('the image is no id');
		const bind = new RegExp(`^${this.folder}/docker/(parts/[a-z.]+|channels/${name}|stored/[a-z0-9-]+/(data|venv|tmp|home))$`);
		for (const m of h.Mounts as Json[]) {
			const volume = new RegExp(`^(${NAME})-(data|venv)$`).exec(m.Source);
			if (m.Type === 'bind' ? !bind.test(m.Source) : m.Type !== 'volume' || !volume || !this.made.has(volume[1]!))
				wrong(`a mount of ${m.Source}`);
			if (m.Type === 'bind' && !/\/stored\//.test(m.Source) && m.ReadOnly !== true)
				wrong(`${m.Source} can be written`);
		}
	}

	/** The daemon hears now of the calls that are held. */
	passOn(): void {
		for (const pass of this.waiting.splice(0))
			pass();
	}

	end(): void {
		this.server.close();
		this.server.closeAllConnections();
	}
}
