// SPDX-License-Identifier: Apache-2.0
// Container daemons of our own: started in a private folder and a private mount namespace, ended by their pid. Nothing of a daemon that
// runs on this machine already is used or touched.

import * as fs from 'node:fs';
import * as path from 'node:path';
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { imagesDir } from './env.ts';
import { owned } from './owned.ts';
import { until } from './wait.ts';

const START_MS = 30_000;

/** The program in the folders of Debian, also where PATH lacks sbin. */
function find(program: string): string | undefined {
	return ['/usr/sbin', '/usr/bin', '/sbin', '/bin', '/usr/local/bin'].map((dir) => path.join(dir, program)).find((p) => fs.existsSync(p));
}

/** The command line that runs ARGV with mounts of its own, and more namespaces: they are gone with its last process. */
const apart = (argv: string[], more: string[]): string[] => ['unshare', '--mount', '--propagation', 'private', ...more, '--', ...argv];

export class Daemon {
	readonly product: 'docker' | 'podman';
	readonly host: string;
	readonly folder: string;
	/** Where it listens with TLS, if it does. */
	tls?: string;
	private readonly argv: string[];
	private child?: ChildProcess;

	/** MORE: options of unshare(1) for further namespaces. */
	constructor(product: 'docker' | 'podman', folder: string, argv: string[], more: string[] = []) {
		this.product = product;
		this.folder = folder;
		this.host = `unix://${path.join(folder, 'socket')}`;
		this.argv = apart(argv, more);
	}

	get pid(): number {
		return this.child!.pid!;
	}

	/** Settings that lead to it. */
	settings(image: string): Record<string, string> {
		return { SANDBOX_ENGINE: 'docker', SANDBOX_IMAGE: image, DOCKER_HOST: this.host };
	}

	/** GET, POST or DELETE of the API; the status and the JSON. */
	ask(method: string, what: string, body?: unknown): { status: number; body: any } {
		const r = spawnSync('curl', ['-s', '--max-time', '60', '-X', method, '--unix-socket', path.join(this.folder, 'socket'), '-w', '\n%{http_code}',
			...(body === undefined ? [] : ['-H', 'Content-Type: application/json', '-d', JSON.stringify(body)]), `http://localhost${what}`], { encoding: 'utf8', maxBuffer: 1 << 26 });
		const at = r.stdout.lastIndexOf('\n');
		let said: unknown = r.stdout.slice(0, at);
		try {
			said = JSON.parse(said as string);
		} catch {
			// no JSON
		}
		return { status: Number(r.stdout.slice(at + 1)), body: said };
	}

	/** Names of the containers that are there, running or not. */
	containers(): string[] {
		const look = (): { status: number; body: any } => this.ask('GET', '/v1.41/containers/json?all=1');
		let r = look();
		// Podman has an error when a container goes while it lists them.
		for (let i = 0; i < 5 && r.status !== 200; i++)
			r = look();
		if (r.status !== 200)
			throw new Error(`the list of containers: ${r.status} ${JSON.stringify(r.body)}`);
		return (r.body as { Names: string[] }[]).map((c) => c.Names[0]!.replace('/', ''));
	}

	volumes(): string[] {
		return ((this.ask('GET', '/v1.41/volumes').body.Volumes ?? []) as { Name: string }[]).map((v) => v.Name);
	}

	/** Undefined, or why it does not run. */
	async start(): Promise<string | undefined> {
		const log = fs.openSync(path.join(this.folder, 'log'), 'a');
		const [program, ...args] = this.argv;
		this.child = spawn(program!, args, { stdio: ['ignore', log, log], detached: true, env: { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', HOME: this.folder } });
		fs.closeSync(log);
		const child = this.child;
		try {
			await until('the daemon', () => {
				if (child.exitCode !== null || child.signalCode !== null)
					throw new Error('it has ended');
				return this.ask('GET', '/_ping').status === 200;
			}, START_MS);
			return undefined;
		} catch (e) {
			await this.stop();
			return `${this.product} does not start: ${(e as Error).message}: ${fs.readFileSync(path.join(this.folder, 'log'), 'utf8').trim().split('\n').at(-1)?.slice(0, 200)}`;
		}
	}

	/** Runs ARGV where the daemon sees the files. */
	within(...argv: string[]): void {
		const r = spawnSync('nsenter', [`--mount=/proc/${this.pid}/ns/mnt`, '--', ...argv], { encoding: 'utf8' });
		if (r.status !== 0)
			throw new Error(`${argv.join(' ')}: ${r.stderr}`);
	}

	signal(signal: NodeJS.Signals): void {
		this.child?.kill(signal);
	}

	async stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
		const child = this.child;
		if (!child || child.exitCode !== null || child.signalCode !== null)
			return;
		child.kill(signal);
		await until('the end of the daemon', () => child.exitCode !== null || child.signalCode !== null, START_MS).catch(() => child.kill('SIGKILL'));
	}

	/** Gives the daemon the archive FILE, as `docker load` does. */
	load(file: string): string {
		return spawnSync('curl', ['-s', '-X', 'POST', '--unix-socket', path.join(this.folder, 'socket'), '-H', 'Content-Type: application/x-tar', '-T', file, 'http://localhost/v1.41/images/load'], { encoding: 'utf8' }).stdout;
	}

	/** Sends the image NAME to the registry that its name begins with. */
	push(name: string): string {
		return spawnSync('curl', ['-s', '-X', 'POST', '--unix-socket', path.join(this.folder, 'socket'), '-H', 'X-Registry-Auth: e30=', `http://localhost/v1.41/images/${name.replace(/:[^:]*$/, '')}/push?tag=${name.split(':').at(-1)}`], { encoding: 'utf8', maxBuffer: 1 << 24 }).stdout;
	}

	/** Imports the image NAME of this machine under its own name; undefined, or why not. */
	importImage(name: string): string | undefined {
		const open = path.join(this.folder, 'open'); // of a container everybody may write to /tmp, as in what `image export` writes
		fs.mkdirSync(path.join(open, 'tmp'), { recursive: true });
		fs.chmodSync(path.join(open, 'tmp'), 0o1777);
		const r = spawnSync('sh', ['-c', 'tar -c --exclude=./tmp -C "$1" . -C "$4" tmp | curl -s --fail-with-body -X POST --unix-socket "$2" -H "Content-Type: application/x-tar" -T - "http://localhost/v1.41/images/create?fromSrc=-&repo=$3&tag=latest"',
			'import', path.join(imagesDir, name, 'root'), path.join(this.folder, 'socket'), name, open], { encoding: 'utf8' });
		return r.status === 0 ? undefined : `the image ${name} cannot be imported: ${r.stdout}${r.stderr}`.slice(0, 300);
	}
}

/** A CA, and a certificate each for a server at ADDRESS and for its client, in FOLDER; the names are those that Docker's client reads. */
export function makeCertificates(folder: string, address = '127.0.0.1'): void {
	const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2'];
	const make = (...args: string[]): void => {
		const r = spawnSync('openssl', ['req', '-x509', ...key, ...args], { encoding: 'utf8', cwd: folder });
		if (r.status !== 0)
			throw new Error(`openssl: ${r.stderr || r.error}`);
	};
	fs.mkdirSync(folder);
	make('-subj', '/CN=a CA of the tests', '-keyout', 'ca-key.pem', '-out', 'ca.pem');
	const signed = ['-CA', 'ca.pem', '-CAkey', 'ca-key.pem', '-addext', 'basicConstraints=critical,CA:FALSE'];
	make('-subj', '/CN=daemon', '-addext', `subjectAltName=IP:${address}`, '-addext', 'extendedKeyUsage=serverAuth', ...signed, '-keyout', 'server-key.pem', '-out', 'server.pem');
	make('-subj', '/CN=client', '-addext', 'extendedKeyUsage=clientAuth', ...signed, '-keyout', 'key.pem', '-out', 'cert.pem');
}

interface DockerOptions {
	/** Options of unshare(1) for further namespaces. */
	more?: string[];
	/** It listens on this port of 127.0.0.1, too, with TLS; the client's certificates are in the folder `certs` of its folder. */
	tlsPort?: number;
}

/** A Docker daemon, or why there is none. Its runtimes: runc, the same once more as `second`, and where gVisor is installed `runsc`, the same
 * out of the control groups of its containers as `uncounted`, and `closed`, to whose containers no socket of the host is open. */
export async function startDocker(o: DockerOptions = {}): Promise<Daemon | string> {
	const dockerd = find('dockerd'), runc = find('runc'), runsc = find('runsc');
	if (process.getuid!() !== 0)
		return 'a daemon of our own needs root';
	if (!dockerd || !runc)
		return 'dockerd or runc is not installed (tools/setup)';
	const folder = owned('caisson-docker-');
	const gvisor = runsc ? { runsc: ' --host-uds=open', uncounted: ' --ignore-cgroups --host-uds=open', closed: '' } : {};
	for (const [name, more] of Object.entries(gvisor))
		fs.writeFileSync(path.join(folder, name), `#!/bin/sh\nexec ${runsc} --network=none${more} "$@"\n`, { mode: 0o755 });
	const certs = path.join(folder, 'certs');
	if (o.tlsPort)
		makeCertificates(certs);
	const tls = o.tlsPort ? ['-H', `tcp://127.0.0.1:${o.tlsPort}`, '--tlsverify', '--tlscacert', path.join(certs, 'ca.pem'), '--tlscert', path.join(certs, 'server.pem'), '--tlskey', path.join(certs, 'server-key.pem')] : [];
	const argv = [dockerd, '--bridge=none', '--iptables=false', '--ip6tables=false', '--data-root', path.join(folder, 'data'), '--exec-root', path.join(folder, 'exec'),
		'-p', path.join(folder, 'pid'), '-H', `unix://${path.join(folder, 'socket')}`, ...tls, '--add-runtime', `second=${runc}`, ...Object.keys(gvisor).flatMap((name) => ['--add-runtime', `${name}=${path.join(folder, name)}`])];
	const daemon = new Daemon('docker', folder, argv, o.more);
	daemon.tls = o.tlsPort ? `tcp://127.0.0.1:${o.tlsPort}` : undefined;
	return (await daemon.start()) ?? daemon;
}

/** Podman's compatible socket, or why there is none. */
export async function startPodman(): Promise<Daemon | string> {
	const podman = find('podman'), runc = find('runc');
	if (process.getuid!() !== 0)
		return 'a daemon of our own needs root';
	if (!podman || !runc)
		return 'podman or runc is not installed (tools/setup)';
	const folder = owned('caisson-podman-');
	const argv = [podman, '--root', path.join(folder, 'root'), '--runroot', path.join(folder, 'run'), '--cgroup-manager=cgroupfs', '--runtime', runc, '--events-backend=none',
		'--storage-driver=overlay', 'system', 'service', '--time=0', `unix://${path.join(folder, 'socket')}`];
	const daemon = new Daemon('podman', folder, argv);
	return (await daemon.start()) ?? daemon;
}

/** Debian's registry with its storage in FOLDER, at ADDRESS, which is HOST:PORT; CERTS: with TLS. In the network namespace of process NET. */
export async function startRegistry(folder: string, address: string, certs?: string, net?: number): Promise<() => Promise<void>> {
	const program = find('docker-registry');
	if (!program)
		throw new Error('docker-registry is not installed (tools/setup)');
	const file = path.join(folder, `${certs ? 'tls' : 'plain'}.json`); // JSON is YAML
	fs.writeFileSync(file, JSON.stringify({
		version: 0.1, log: { level: 'error' }, storage: { filesystem: { rootdirectory: path.join(folder, 'storage') } },
		http: { addr: address, ...(certs ? { tls: { certificate: path.join(certs, 'server.pem'), key: path.join(certs, 'server-key.pem') } } : {}) } }));
	const child = spawn('nsenter', [`--net=/proc/${net ?? 'self'}/ns/net`, '--', program, 'serve', file], { stdio: 'ignore', env: { PATH: '/usr/bin:/bin', OTEL_TRACES_EXPORTER: 'none' } });
	const over = (): boolean => child.exitCode !== null || child.signalCode !== null;
	await until('the registry', () => {
		if (over())
			throw new Error('the registry has ended');
		const r = spawnSync('nsenter', [`--net=/proc/${net ?? 'self'}/ns/net`, '--', 'curl', '-sk', '-o', '/dev/null', '-w', '%{http_code}', `${certs ? 'https' : 'http'}://${address}/v2/`], { encoding: 'utf8' });
		return r.stdout === '200';
	}, START_MS);
	return async () => {
		child.kill('SIGTERM');
		await until('the end of the registry', over, START_MS);
	};
}
