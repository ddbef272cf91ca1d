// SPDX-License-Identifier: Apache-2.0
// A real Kubernetes on this machine: etcd, API server, controllers, scheduler, and nodes with containerd, kubelet and kube-proxy. Each node is a
// network and a mount namespace; all of them, and the control plane, are in a network of their own, from which no route leads out.

import * as fs from 'node:fs';
import * as path from 'node:path';
import { createHash } from 'node:crypto';
import { spawn, spawnSync, type ChildProcess, type StdioOptions } from 'node:child_process';
import { owned } from '../../lib/owned.ts';
import { until } from '../../lib/wait.ts';

const HOST = '198.18.0.1', METRICS_PORT = 7443, API = `https://${HOST}:6443`, SERVICES = '10.96.0', TOKEN = 'a-token-of-these-tests';
const CONTROLLERS = ['cpu', 'cpuacct', 'cpuset', 'memory', 'devices', 'freezer', 'blkio', 'pids', 'systemd', 'unified'].map((c) => `/sys/fs/cgroup/${c}`).filter((c) => fs.existsSync(c));

export interface Said { code: number | null; stdout: string; stderr: string }

function must(argv: string[], input?: string): string {
	const r = spawnSync(argv[0]!, argv.slice(1), { encoding: 'utf8', input, maxBuffer: 1 << 26 });
	if (r.status !== 0)
		throw new Error(`${argv.join(' ')}: ${r.stderr || r.error?.message}`);
	return r.stdout;
}

export class Cluster {
	readonly folder = owned('caisson-kube-', '/var/tmp');
	private readonly programs: string;
	private readonly nodes: string[] = [];
	private readonly children: { name: string; child: ChildProcess }[] = [];
	/** Processes that hold the namespaces, by name; `host` is the control plane's. */
	private readonly holders = new Map<string, ChildProcess>();

	constructor(programs: string) {
		this.programs = programs;
	}

	private at(...names: string[]): string {
		return path.join(this.folder, ...names);
	}

	private hold(name: string): void {
		this.holders.set(name, spawn('unshare', ['--net', '--mount', '--propagation', 'shared', 'sleep', 'infinity'], { stdio: 'ignore' }));
	}

	private within(name: string, argv: string[]): string[] {
		return ['nsenter', `--target=${this.holders.get(name)!.pid}`, '--net', '--mount', '--', ...argv];
	}

	/** Runs a shell script in the namespaces of NAME. */
	shell(name: string, script: string): string {
		return must(this.within(name, ['sh', '-ec', script]));
	}

	private daemon(where: string, name: string, argv: string[]): void {
		const log = fs.openSync(this.at(`${where}-${name}.log`), 'a');
		const [program, ...args] = this.within(where, [path.resolve(this.programs, argv[0]!), ...argv.slice(1)]);
		this.children.push({ name: `${where}-${name}`, child: spawn(program!, args, { stdio: ['ignore', log, log], env: { PATH: `${this.programs}:/usr/sbin:/usr/bin:/sbin:/bin`, HOME: this.folder } }) });
		fs.closeSync(log);
	}

	private certificate(name: string, names: string): void {
		const ec = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2'];
		if (!fs.existsSync(this.at('ca.pem')))
			must(['openssl', 'req', '-x509', ...ec, '-subj', '/CN=kubernetes', '-addext', 'basicConstraints=critical,CA:true', '-keyout', this.at('ca.key'), '-out', this.at('ca.pem')]);
		must(['openssl', 'req', '-x509', ...ec, '-subj', `/CN=${name}`, '-CA', this.at('ca.pem'), '-CAkey', this.at('ca.key'), '-addext', 'basicConstraints=critical,CA:false',
			'-addext', `subjectAltName=${names}`, '-keyout', this.at(`${name}.key`), '-out', this.at(`${name}.pem`)]);
	}

	async start(nodes: number): Promise<void> {
		fs.chmodSync(this.folder, 0o755);
		this.hold('host');
		await until('a namespace', () => this.shell('host', 'readlink /proc/self/ns/net').trim() !== fs.readlinkSync('/proc/self/ns/net'));
		this.shell('host', `ip link set lo up; ip link add br0 type bridge; ip addr add ${HOST}/16 dev br0; ip link set br0 up; echo 1 >/proc/sys/net/ipv4/ip_forward; ip route add ${SERVICES}.0/24 dev br0`);
		this.certificate('api', `IP:${HOST},IP:${SERVICES}.1,IP:127.0.0.1`);
		must(['openssl', 'genrsa', '-out', this.at('accounts.key'), '2048']);
		fs.writeFileSync(this.at('tokens.csv'), `${TOKEN},admin,admin,system:masters\n`);
		fs.writeFileSync(this.at('kubeconfig'), JSON.stringify({
			apiVersion: 'v1', kind: 'Config', 'current-context': 'c', clusters: [{ name: 'c', cluster: { server: API, 'certificate-authority': this.at('ca.pem') } }],
			users: [{ name: 'u', user: { token: TOKEN } }], contexts: [{ name: 'c', context: { cluster: 'c', user: 'u' } }],
		}));
		this.daemon('host', 'etcd', ['etcd', '--data-dir', this.at('etcd'), '--listen-client-urls', 'http://127.0.0.1:2379', '--advertise-client-urls', 'http://127.0.0.1:2379', '--listen-peer-urls', 'http://127.0.0.1:2380', '--unsafe-no-fsync']);
		this.daemon('host', 'api', ['kube-apiserver', '--etcd-servers=http://127.0.0.1:2379', `--advertise-address=${HOST}`, `--tls-cert-file=${this.at('api.pem')}`, `--tls-private-key-file=${this.at('api.key')}`,
			`--cert-dir=${this.at('api')}`, `--token-auth-file=${this.at('tokens.csv')}`, '--authorization-mode=RBAC', `--service-account-key-file=${this.at('accounts.key')}`, `--service-account-signing-key-file=${this.at('accounts.key')}`,
			`--service-account-issuer=${API}`, `--service-cluster-ip-range=${SERVICES}.0/24`, '--allow-privileged=true', '--enable-aggregator-routing=true', '--kubelet-preferred-address-types=InternalIP', '--default-not-ready-toleration-seconds=10', '--default-unreachable-toleration-seconds=10']);
		await until('the API server', () => this.kubectl('get', '--raw', '/readyz').code === 0, 120_000);
		const config = `--kubeconfig=${this.at('kubeconfig')}`;
		this.daemon('host', 'controllers', ['kube-controller-manager', config, '--leader-elect=false', `--root-ca-file=${this.at('ca.pem')}`, `--service-account-private-key-file=${this.at('accounts.key')}`, '--use-service-account-credentials=false',
			`--cert-dir=${this.at('controllers')}`, '--node-monitor-grace-period=12s', '--node-monitor-period=2s', '--horizontal-pod-autoscaler-sync-period=3s']);
		this.daemon('host', 'scheduler', ['kube-scheduler', config, '--leader-elect=false', `--cert-dir=${this.at('scheduler')}`]);
		for (let i = 1; i <= nodes; i++)
			await this.node(i, nodes);
		this.load(this.pause());
		await until('all nodes', () => (this.kubectl('get', 'nodes').stdout.match(/ Ready /g) ?? []).length === nodes, 120_000);
	}

	private async node(i: number, all: number): Promise<void> {
		const name = `n${i}`, address = `198.18.0.${10 + i}`, dir = this.at(name);
		this.hold(name);
		this.nodes.push(name);
		for (const c of CONTROLLERS) {
			const group = `${c}/caisson-kube-${process.pid}-${name}`;
			fs.mkdirSync(group, { recursive: true });
			if (c.endsWith('cpuset'))
				for (const file of ['cpuset.cpus', 'cpuset.mems'])
					fs.writeFileSync(`${group}/${file}`, fs.readFileSync(`${c}/${file}`));
		}
		await until('a namespace', () => this.shell(name, 'readlink /proc/self/ns/net').trim() !== fs.readlinkSync('/proc/self/ns/net'));
		this.shell('host', `ip link add ${name} type veth peer name eth0 netns ${this.holders.get(name)!.pid}; ip link set ${name} master br0 up; ip route add 198.19.${i}.0/24 via ${address}`);
		const others = Array.from({ length: all }, (_, k) => k + 1).filter((k) => k !== i).map((k) => `ip route add 198.19.${k}.0/24 via 198.18.0.${10 + k}`);
		this.shell(name, [`ip link set lo up; ip addr add ${address}/16 dev eth0; ip link set eth0 up; ip route add default via ${HOST}; echo 1 >/proc/sys/net/ipv4/ip_forward`, ...others,
			'mount -t tmpfs lib /var/lib', 'mount -t tmpfs log /var/log', 'mount -t tmpfs run /run',
			`mkdir -p ${dir}/workers /var/lib/caisson-workers; mount --bind ${dir}/workers /var/lib/caisson-workers`].join('; ')); // hostPath of workers: a disk, and one for each node
		fs.mkdirSync(path.join(dir, 'cni'), { recursive: true });
		fs.writeFileSync(path.join(dir, 'cni/ptp.conflist'), JSON.stringify({ cniVersion: '1.0.0', name: 'pods', plugins: [
			{ type: 'ptp', ipam: { type: 'host-local', dataDir: path.join(dir, 'ipam'), ranges: [[{ subnet: `198.19.${i}.0/24` }]], routes: [{ dst: '0.0.0.0/0' }] } }] }));
		fs.writeFileSync(path.join(dir, 'containerd.toml'), `version = 3
root = "${dir}/containerd"
state = "/run/containerd"
[grpc]
address = "/run/containerd.sock"
[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "docker.io/library/pause:tests"
[plugins."io.containerd.cri.v1.runtime"]
restrict_oom_score_adj = true
[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["/usr/lib/cni"]
conf_dir = "${dir}/cni"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
SystemdCgroup = false
BinaryName = "${path.join(this.programs, 'runc')}"
`);
		fs.writeFileSync(path.join(dir, 'kubelet.json'), JSON.stringify({
			apiVersion: 'kubelet.config.k8s.io/v1beta1', kind: 'KubeletConfiguration', failCgroupV1: false, cgroupDriver: 'cgroupfs', cgroupRoot: `/caisson-kube-${process.pid}-${name}`, cgroupsPerQOS: true, enforceNodeAllocatable: [],
			localStorageCapacityIsolation: false, failSwapOn: false, containerRuntimeEndpoint: 'unix:///run/containerd.sock', authentication: { anonymous: { enabled: true }, webhook: { enabled: false } }, authorization: { mode: 'AlwaysAllow' },
			nodeLeaseDurationSeconds: 4, nodeStatusUpdateFrequency: '2s', resolvConf: '', registerNode: true, imageGCHighThresholdPercent: 100, imageGCLowThresholdPercent: 99, evictionHard: { 'memory.available': '1Mi' }, address, healthzPort: 0,
		}));
		fs.writeFileSync(path.join(dir, 'proxy.json'), JSON.stringify({
			apiVersion: 'kubeproxy.config.k8s.io/v1alpha1', kind: 'KubeProxyConfiguration', mode: 'iptables', clientConnection: { kubeconfig: this.at('kubeconfig') }, hostnameOverride: name,
			conntrack: { maxPerCore: 0, min: 0, tcpEstablishedTimeout: '0s', tcpCloseWaitTimeout: '0s' }, clusterCIDR: '198.19.0.0/16',
		}));
		this.daemon(name, 'containerd', ['containerd', '--config', path.join(dir, 'containerd.toml')]);
		await until('containerd', () => spawnSync(...this.spawnable(name, ['ctr', '--address', '/run/containerd.sock', 'version'])).status === 0, 60_000);
		this.daemon(name, 'kubelet', ['kubelet', `--config=${path.join(dir, 'kubelet.json')}`, `--kubeconfig=${this.at('kubeconfig')}`, `--root-dir=${dir}/kubelet`, `--hostname-override=${name}`, `--node-ip=${address}`, `--cert-dir=${dir}/pki`]);
		this.daemon(name, 'proxy', ['kube-proxy', `--config=${path.join(dir, 'proxy.json')}`]);
	}

	private spawnable(name: string, argv: string[]): [string, string[], { encoding: 'utf8' }] {
		const [program, ...args] = this.within(name, [path.join(this.programs, argv[0]!), ...argv.slice(1)]);
		return [program!, args, { encoding: 'utf8' }];
	}

	/** An image with one program that waits, which holds the namespaces of each pod. */
	private pause(): string {
		const dir = this.at('pause'), layer = path.join(dir, 'layer.tar'), archive = this.at('pause.tar');
		fs.mkdirSync(dir);
		must(['gcc', '-static', '-Os', '-o', path.join(dir, 'pause'), '-xc', '-'], '#include <unistd.h>\nint main(void) { for (;;) pause(); }\n');
		must(['tar', '-C', dir, '-cf', layer, 'pause']);
		fs.writeFileSync(path.join(dir, 'config.json'), JSON.stringify({ architecture: { x64: 'amd64', arm64: 'arm64' }[process.arch as string], os: 'linux', config: { Entrypoint: ['/pause'] },
			rootfs: { type: 'layers', diff_ids: [`sha256:${createHash('sha256').update(fs.readFileSync(layer)).digest('hex')}`] } }));
		fs.writeFileSync(path.join(dir, 'manifest.json'), JSON.stringify([{ Config: 'config.json', RepoTags: ['docker.io/library/pause:tests'], Layers: ['layer.tar'] }]));
		must(['tar', '-C', dir, '-cf', archive, 'config.json', 'manifest.json', 'layer.tar']);
		return archive;
	}

	/** Gives all nodes the image of ARCHIVE. */
	load(archive: string): void {
		for (const node of this.nodes)
			must(this.within(node, [path.join(this.programs, 'ctr'), '--address', '/run/containerd.sock', '--namespace', 'k8s.io', 'images', 'import', '--local', archive]));
	}

	/** Starts an adapter of metrics for autoscalers, which is part of the API server from then on. */
	adapt(): void {
		this.daemon('host', 'adapter', [process.execPath, '--disable-warning=ExperimentalWarning', path.join(import.meta.dirname, 'adapter.ts'), `${METRICS_PORT}`, this.at('api.pem'), this.at('api.key'), API, this.at('ca.pem'), TOKEN]);
		const group = 'custom.metrics.k8s.io', of = { name: 'metrics', namespace: 'default' };
		const r = this.run('kubectl', ['apply', '-f', '-'], [
			{ apiVersion: 'v1', kind: 'Service', metadata: of, spec: { ports: [{ port: 443 }] } },
			{ apiVersion: 'discovery.k8s.io/v1', kind: 'EndpointSlice', metadata: { ...of, labels: { 'kubernetes.io/service-name': of.name } }, addressType: 'IPv4', ports: [{ name: '', port: METRICS_PORT }], endpoints: [{ addresses: [HOST], conditions: { ready: true } }] },
			{ apiVersion: 'apiregistration.k8s.io/v1', kind: 'APIService', metadata: { name: `v1beta1.${group}` }, spec: { group, version: 'v1beta1', service: of, insecureSkipTLSVerify: true, groupPriorityMinimum: 100, versionPriority: 100 } },
		].map((o) => JSON.stringify(o)).join('\n---\n'));
		if (r.code !== 0)
			throw new Error(r.stderr);
	}

	run(program: string, argv: string[], input?: string): Said {
		const [nsenter, ...args] = this.within('host', [path.join(this.programs, program), ...argv]);
		const r = spawnSync(nsenter!, args, { encoding: 'utf8', input, maxBuffer: 1 << 26, timeout: 300_000, env: { PATH: process.env.PATH!, HOME: this.folder, KUBECONFIG: this.at('kubeconfig') } });
		return { code: r.status, stdout: r.stdout ?? '', stderr: (r.stderr ?? '') + (r.error ? String(r.error) : '') };
	}

	/** Starts a program in the network of node n1, where Services have their addresses. */
	client(argv: string[], stdio: StdioOptions): ChildProcess {
		const [program, ...args] = ['nsenter', `--target=${this.holders.get('n1')!.pid}`, '--net', '--', ...argv];
		return spawn(program!, args, { stdio });
	}

	/** kubectl that this process does not wait for. */
	begin(...argv: string[]): ChildProcess {
		const [nsenter, ...args] = this.within('host', [path.join(this.programs, 'kubectl'), ...argv]);
		return spawn(nsenter!, args, { stdio: ['ignore', 'ignore', 'pipe'], env: { PATH: process.env.PATH!, HOME: this.folder, KUBECONFIG: this.at('kubeconfig') } });
	}

	kubectl(...argv: string[]): Said {
		return this.run('kubectl', argv);
	}

	/** To a program of the control plane or of a node, such as `host-api`. */
	signal(name: string, signal: NodeJS.Signals): void {
		this.children.find((c) => c.name === name)!.child.kill(signal);
	}

	/** The end of each log, for an error. */
	logs(): string {
		return fs.readdirSync(this.folder).filter((f) => f.endsWith('.log')).map((f) => `--- ${f}\n${fs.readFileSync(this.at(f), 'utf8').slice(-1500)}`).join('\n');
	}

	async stop(): Promise<void> {
		const gone = (c: ChildProcess): boolean => c.exitCode !== null || c.signalCode !== null;
		for (const { child } of [...this.children].reverse())
			child.kill('SIGKILL');
		for (const node of this.nodes)
			CONTROLLERS.forEach((c) => this.empty(`${c}/caisson-kube-${process.pid}-${node}`));
		await until('the end of the cluster', () => this.children.every(({ child }) => gone(child)), 30_000);
		for (const node of this.nodes) // shims of containerd, in the node's namespaces
			this.killWithin(node);
		this.holders.forEach((h) => h.kill('SIGKILL'));
		await until('the end of the namespaces', () => [...this.holders.values()].every(gone), 30_000);
		await until('no group is left', () => this.nodes.every((n) => CONTROLLERS.every((c) => this.empty(`${c}/caisson-kube-${process.pid}-${n}`))), 30_000);
	}

	/** Ends what is in the mount namespace of the node, but for its holder. */
	private killWithin(node: string): void {
		const holder = this.holders.get(node)!.pid!, mine = fs.readlinkSync(`/proc/${holder}/ns/net`);
		for (const pid of fs.readdirSync('/proc').filter((p) => /^\d+$/.test(p) && Number(p) !== holder)) {
			try {
				if (fs.readlinkSync(`/proc/${pid}/ns/net`) === mine)
					process.kill(Number(pid), 'SIGKILL');
			} catch {
				// it has gone
			}
		}
	}

	/** Ends all processes of a control group of ours and removes it, with those below. True: it is gone. */
	private empty(group: string): boolean {
		if (!fs.existsSync(group))
			return true;
		for (const below of fs.readdirSync(group, { withFileTypes: true }).filter((e) => e.isDirectory()))
			this.empty(path.join(group, below.name));
		try {
			for (const pid of fs.readFileSync(`${group}/cgroup.procs`, 'utf8').split('\n').filter(Boolean))
				process.kill(Number(pid), 'SIGKILL');
		} catch {
			// they have gone
		}
		try {
			fs.rmdirSync(group);
		} catch {
			return false;
		}
		return true;
	}
}
