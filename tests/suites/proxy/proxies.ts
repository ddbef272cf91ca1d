// SPDX-License-Identifier: Apache-2.0
// nginx and Caddy with the files of packaging/proxy. Only names, addresses and the paths of the certificates are other ones.

import * as fs from 'node:fs';
import * as path from 'node:path';
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { findProgram } from '../../lib/debian.ts';
import { freePort, scratch, top } from '../../lib/env.ts';
import { until } from '../../lib/wait.ts';

export interface Place {
	folder: string; // of the proxy's own, for all that it writes
	port: number;
	server: string; // 127.0.0.1:PORT
	certificate: string;
	key: string;
}

export interface Kind {
	name: string;
	program: string; // and its package
	path: string; // below which the server is: "" or "/caisson"
	/** Writes what it needs into its folder; its command line. */
	configure(program: string, p: Place): string[];
}

/** TEXT with each FROM replaced; one that is not there would be tested by nobody. */
function changed(file: string, pairs: readonly (readonly [string, string])[]): string {
	let text = fs.readFileSync(path.join(top, 'packaging/proxy', file), 'utf8');
	for (const [from, to] of pairs) {
		if (!text.includes(from))
			throw new Error(`packaging/proxy/${file} has no '${from}'`);
		text = text.replaceAll(from, to);
	}
	return text;
}

/** SITE in a folder of its own; its command line. */
function nginx(program: string, p: Place, site: string): string[] {
	fs.writeFileSync(path.join(p.folder, 'site.conf'), site);
	fs.writeFileSync(path.join(p.folder, 'nginx.conf'), `daemon off;\nmaster_process off;\npid ${p.folder}/pid;\nerror_log stderr;\nevents {}\nhttp {\n\taccess_log off;\n` +
		['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((n) => `\t${n}_temp_path ${p.folder}/kept/${n};\n`).join('') + `\tinclude ${p.folder}/site.conf;\n}\n`);
	return [program, '-p', p.folder, '-e', 'stderr', '-c', path.join(p.folder, 'nginx.conf')];
}

function caddy(program: string, p: Place, site: string): string[] {
	fs.writeFileSync(path.join(p.folder, 'Caddyfile'), `{\n\tadmin off\n\tauto_https disable_redirects\n\tdefault_bind 127.0.0.1\n\thttps_port ${p.port}\n\tstorage file_system ${p.folder}/state\n}\n${site}`);
	return [program, 'run', '--adapter', 'caddyfile', '--config', path.join(p.folder, 'Caddyfile')];
}

export const kinds: Kind[] = [
	{
		name: 'nginx', program: 'nginx', path: '',
		configure: (program, p) => nginx(program, p, changed('nginx.conf', [['listen 443 ssl', `listen 127.0.0.1:${p.port} ssl`], ['/etc/ssl/box.example.org.pem', p.certificate],
			['/etc/ssl/private/box.example.org.key', p.key], ['http://127.0.0.1:8181', `http://${p.server}`]])),
	},
	{
		name: 'caddy', program: 'caddy', path: '',
		configure(program, p) {
			const tls = `tls ${p.certificate} ${p.key}`;
			return caddy(program, p, changed('Caddyfile', [['127.0.0.1:8181', p.server], ['tls /etc/ssl/ports.example.org.pem /etc/ssl/private/ports.example.org.key', tls],
				['box.example.org {', `box.example.org {\n    ${tls}`]]));
		},
	},
	{
		name: 'nginx, below a path', program: 'nginx', path: '/caisson',
		configure: (program, p) => nginx(program, p, changed('nginx-path.conf', [['listen 443 ssl', `listen 127.0.0.1:${p.port} ssl`], ['/etc/ssl/host.example.org.pem', p.certificate],
			['/etc/ssl/private/host.example.org.key', p.key], ['http://127.0.0.1:8181', `http://${p.server}`], ['server_name host.example.org', 'server_name box.example.org']])),
	},
	{
		name: 'caddy, below a path', program: 'caddy', path: '/caisson',
		configure: (program, p) => caddy(program, p, changed('Caddyfile.path', [['127.0.0.1:8181', p.server], ['host.example.org {', `box.example.org {\n    tls ${p.certificate} ${p.key}`]])),
	},
];

export class Proxy {
	readonly place: Place;
	private readonly child: ChildProcess;
	private said = '';

	private constructor(place: Place, argv: string[]) {
		this.place = place;
		this.child = spawn(argv[0]!, argv.slice(1), { stdio: ['ignore', 'pipe', 'pipe'], env: { PATH: '/usr/bin:/bin', HOME: place.folder, XDG_DATA_HOME: place.folder, XDG_CONFIG_HOME: place.folder } });
		for (const stream of [this.child.stdout!, this.child.stderr!])
			stream.on('data', (b: Buffer) => (this.said = (this.said + b.toString()).slice(-10_000)));
	}

	/** Or why it cannot be had. */
	static async start(kind: Kind, server: string, certificate: string, key: string): Promise<Proxy | string> {
		const found = findProgram(kind.program, 'proxy');
		if ('missing' in found)
			return found.missing;
		const place = { folder: scratch(`${kind.program}-runs`), port: await freePort(), server, certificate, key };
		fs.mkdirSync(path.join(place.folder, 'kept'));
		const p = new Proxy(place, kind.configure(found.program, place));
		await until(`${kind.name} on its port`, () => {
			if (p.child.exitCode !== null)
				throw new Error(`${kind.name} ended: ${p.said}`);
			return spawnSync('curl', ['-sk', '--max-time', '2', '--resolve', `box.example.org:${place.port}:127.0.0.1`, `https://box.example.org:${place.port}${kind.path}/healthz`]).status === 0;
		});
		return p;
	}

	/** Bytes in files of its folder, and in files without a name that it has open. */
	kept(): number {
		let n = 0;
		for (const e of fs.readdirSync(path.join(this.place.folder, 'kept'), { recursive: true, withFileTypes: true }))
			n += e.isFile() ? fs.statSync(path.join(e.parentPath, e.name)).size : 0;
		for (const fd of fs.readdirSync(`/proc/${this.child.pid}/fd`))
			try {
				const s = fs.statSync(`/proc/${this.child.pid}/fd/${fd}`);
				n += s.isFile() && s.nlink === 0 ? s.size : 0;
			} catch {
				// closed since
			}
		return n;
	}

	async stop(): Promise<void> {
		if (this.child.exitCode === null) {
			const ended = once(this.child, 'exit');
			this.child.kill('SIGTERM');
			await ended;
		}
	}
}
