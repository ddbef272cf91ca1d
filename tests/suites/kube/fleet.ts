// SPDX-License-Identifier: Apache-2.0
// The chart in a real cluster: a fleet that is used, hurt, restarted, scaled, upgraded and removed.

import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import * as path from 'node:path';
import { top } from '../../lib/env.ts';
import type { Json } from '../../lib/session.ts';
import type { Trial } from '../../lib/play.ts';
import { until } from '../../lib/wait.ts';
import type { Cluster, Said } from './cluster.ts';

const SPACE = 'sandboxes', WAIT = '--timeout=240s';
/** What docs/kubernetes.md says of calls for sandboxes of a worker that ends. */
const MAY = ['node_unreachable', 'node_lost', 'session_not_found'];

interface Answer { status: number; text: string; code: string; headers: string }

export class Fleet {
	private readonly cluster: Cluster;
	private readonly image: string;
	private address = '';
	private key = '';

	constructor(cluster: Cluster, image: string) {
		this.cluster = cluster;
		this.image = image;
	}

	said(...argv: string[]): Said {
		return this.cluster.kubectl('--namespace', SPACE, ...argv);
	}

	kubectl(...argv: string[]): string {
		const r = this.said(...argv);
		assert.equal(r.code, 0, `kubectl ${argv.join(' ')}: ${r.stderr}`);
		return r.stdout;
	}

	helm(verb: string, ...argv: string[]): Said {
		const values = ['image.pullPolicy=Never', `image.repository=${this.image.split(':')[0]}`, `image.tag=${this.image.split(':')[1]}`, 'worker.resources.requests.cpu=100m', 'worker.resources.requests.memory=128Mi', 'router.settings.SANDBOX_REQUIRE_AUTH=on'];
		const r = this.cluster.run('helm', [verb, 'fleet', ...(verb === 'uninstall' ? [] : [path.join(top, 'packaging/chart'), ...values.flatMap((v) => ['--set', v])]), '--namespace', SPACE, ...argv]);
		assert.equal(r.code, 0, r.stderr);
		return r;
	}

	/** Manifests to the API server. */
	apply(manifests: string, ...argv: string[]): string {
		const r = this.cluster.run('kubectl', ['--namespace', SPACE, 'apply', '-f', '-', ...argv], manifests);
		assert.equal(r.code, 0, r.stderr);
		return r.stdout;
	}

	adapt(): void {
		this.cluster.adapt();
	}

	hang(now: boolean): void {
		this.cluster.signal('host-api', now ? 'SIGSTOP' : 'SIGCONT');
	}

	answers(): boolean {
		return this.cluster.kubectl('get', '--raw', '/readyz').code === 0;
	}

	rolledOut(): void {
		this.kubectl('rollout', 'status', 'deployment/fleet-caisson-worker', 'deployment/fleet-caisson-router', WAIT);
	}

	learn(): void {
		this.address = `http://${this.kubectl('get', 'service', 'fleet-caisson-router', '-o', 'jsonpath={.spec.clusterIP}')}`;
		this.key = Buffer.from(this.kubectl('get', 'secret', 'fleet-caisson-access', '-o', 'jsonpath={.data.api-key}'), 'base64').toString();
	}

	/** A request of a client in the cluster, to the address of the routers' Service. */
	async call(method: string, where: string, body?: unknown, headers: Record<string, string> = {}): Promise<Answer> {
		const all = { host: `fleet-caisson-router.${SPACE}.svc`, 'x-api-key': this.key, ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...headers };
		const curl = this.cluster.client(['curl', '-sS', '-i', '--max-time', '60', '-X', method, ...Object.entries(all).flatMap(([n, v]) => ['-H', `${n}: ${v}`]),
			...(body === undefined ? [] : ['--data-binary', JSON.stringify(body)]), this.address + where], ['ignore', 'pipe', 'pipe']);
		let text = '', problem = '';
		curl.stdout!.setEncoding('utf8').on('data', (d: string) => text += d);
		curl.stderr!.setEncoding('utf8').on('data', (d: string) => problem += d);
		const status = await new Promise<number | null>((resolve) => curl.once('close', resolve));
		if (status !== 0)
			return { status: 0, text: problem, code: `curl ${status}`, headers: '' };
		const end = text.indexOf('\r\n\r\n'), said = text.slice(end + 4), number = Number(text.split(' ')[1]);
		return { status: number, text: said, headers: text.slice(0, end), code: number < 400 ? 'ok' : /"code":"(\w+)"/.exec(said)?.[1] ?? `status ${number}` };
	}

	async ok(method: string, where: string, body?: unknown, headers: Record<string, string> = {}): Promise<Json> {
		const r = await this.call(method, where, body, headers);
		assert.equal(r.code, 'ok', `${method} ${where}: ${r.status} ${r.text}`);
		return r.text ? JSON.parse(r.text.replace(/^[\s\S]*?data: (?=\{)/, '')) as Json : {};
	}

	async members(): Promise<Json[]> {
		return (await this.ok('GET', '/api/v1/fleet')).workers as Json[];
	}

	async ready(n: number): Promise<Json[]> {
		return until(`${n} workers are ready`, async () => {
			const ready = (await this.members()).filter((m) => m.state === 'ready' && m.listed);
			return ready.length === n && ready;
		}, 60_000);
	}

	/** New sandboxes, at least one on each of N workers; by short id of the worker, as ids of sandboxes have it. */
	async spread(n: number): Promise<Map<string, string[]>> {
		const by = new Map<string, string[]>();
		for (let i = 0; i < 40 && by.size < n; i++) {
			const id = (await this.ok('POST', '/api/v1/sandboxes', {})).id as string;
			by.set(id.slice(5, 9), [...by.get(id.slice(5, 9)) ?? [], id]);
		}
		assert.equal(by.size, n, 'sandboxes are on all workers');
		return by;
	}

	async runs(id: string): Promise<void> {
		const word = randomBytes(6).toString('hex');
		const said = await this.ok('POST', `/api/v1/sandboxes/${id}/runs`, { code: `print("${word}")`, wait: true });
		assert.ok(JSON.stringify(said).includes(word), JSON.stringify(said));
	}

	/** Clients that make a sandbox, run code and end it, while WHAT happens. What they are told must be in the contract. */
	async under(what: () => void | Promise<void>): Promise<string> {
		const wrong: string[] = [], counts: Record<string, number> = {};
		let over = false;
		const client = async (): Promise<void> => {
			while (!over) {
				const made = await this.call('POST', '/api/v1/sandboxes', {}), id = made.code === 'ok' ? (JSON.parse(made.text) as Json).id as string : '';
				counts[made.code] = (counts[made.code] ?? 0) + 1;
				if (!id)
					wrong.push(`a new sandbox: ${made.status} ${made.text}`);
				for (const [method, where, body] of id ? [['POST', '/runs', { code: 'print(1)', wait: true }], ['DELETE', '', undefined]] as const : []) {
					const said = await this.call(method, `/api/v1/sandboxes/${id}${where}`, body);
					counts[said.code] = (counts[said.code] ?? 0) + 1;
					if (said.code !== 'ok' && !MAY.includes(said.code))
						wrong.push(`${method} ${where}: ${said.status} ${said.text}`);
				}
			}
		};
		const clients = [client(), client()];
		try {
			await until('clients work', () => (counts.ok ?? 0) > 10, 60_000);
			await what();
			const before = counts.ok ?? 0;
			await until('clients go on', () => (counts.ok ?? 0) > before + 10, 60_000);
		} finally {
			over = true;
			await Promise.all(clients);
		}
		assert.deepEqual(wrong.slice(0, 10), [], `${wrong.length} answers are none of the contract`);
		return Object.entries(counts).map(([code, n]) => `${n} ${code}`).join(', ');
	}

	/** kubectl beside the clients: it must not hold the loop that they run on. */
	async beside(...argv: string[]): Promise<void> {
		const child = this.cluster.begin('--namespace', SPACE, ...argv);
		let problem = '';
		child.stderr!.setEncoding('utf8').on('data', (d: string) => problem += d);
		const status = await new Promise<number | null>((resolve) => child.once('close', resolve));
		assert.equal(status, 0, `kubectl ${argv.join(' ')}: ${problem}`);
	}
}

export function fleetCases(f: Fleet): Trial[] {
	return [
		{
			name: 'helm install: all pods are ready, and routers know their workers',
			async run() {
				f.helm('install', '--create-namespace');
				f.rolledOut();
				f.learn();
				await f.ready(2);
			},
		},
		{
			name: 'clients of the Service run code on both workers, over REST and MCP, and the list has all sandboxes',
			async run() {
				const by = [...(await f.spread(2)).values()].flat();
				for (const id of by)
					await f.runs(id);
				const list = await f.ok('GET', '/api/v1/sandboxes');
				const ids = JSON.stringify(list);
				assert.ok(by.every((id) => ids.includes(id)) && !ids.includes('workers_missing'), ids);
				const stored = await f.call('POST', '/api/v1/sandboxes', { kind: 'stored' });
				assert.deepEqual([stored.status, stored.code], [503, 'engine_unavailable'], `they need worker.privileged: ${stored.text}`);
				assert.match(stored.text, /loop devices/);
				const accept = { accept: 'application/json, text/event-stream' };
				const begun = await f.call('POST', '/mcp', { jsonrpc: '2.0', id: 1, method: 'initialize', params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'tests', version: '1' } } }, accept);
				assert.equal(begun.status, 200, begun.text);
				const session = /^mcp-session-id: (\S+)$/im.exec(begun.headers)![1]!, more = { ...accept, 'mcp-session-id': session, 'mcp-protocol-version': '2025-06-18' };
				assert.equal((await f.call('POST', '/mcp', { jsonrpc: '2.0', method: 'notifications/initialized' }, more)).status, 202);
				const said = await f.ok('POST', '/mcp', { jsonrpc: '2.0', id: 2, method: 'tools/call', params: { name: 'sandbox_run_python', arguments: { code: 'print(6 * 7)' } } }, more);
				assert.match(JSON.stringify(said), /42/);
			},
		},
		{
			name: 'a worker pod that is killed: its sandboxes are lost and say so, others and new ones work, a new pod takes its place',
			async run() {
				const by = await f.spread(2), pods = f.kubectl('get', 'pods', '-l', 'app.kubernetes.io/component=worker', '-o', 'name').trim().split('\n');
				const node = f.kubectl('get', pods[0]!, '-o', 'jsonpath={.spec.nodeName}'), victim = (await f.members()).find((m) => m.name === node)!, id = Number.parseInt(victim.id as string, 36).toString(16).padStart(4, '0');
				f.kubectl('delete', pods[0]!, '--grace-period=0', '--force');
				const lost = by.get(id)![0]!, kept = [...by].find(([w]) => w !== id)![1][0]!;
				const first = await until('its sandboxes fail', async () => {
					const r = await f.call('GET', `/api/v1/sandboxes/${lost}`);
					return r.code !== 'ok' && r;
				}, 60_000);
				assert.ok(MAY.includes(first.code), `${first.status} ${first.text}`);
				await f.runs(kept);
				await f.runs((await f.ok('POST', '/api/v1/sandboxes', {})).id as string);
				f.rolledOut();
				await f.ready(2);
				await until('it is lost for good', async () => ['node_lost', 'session_not_found'].includes((await f.call('GET', `/api/v1/sandboxes/${lost}`)).code), 90_000);
				await f.spread(2);
			},
		},
		...['router', 'worker'].map((part): Trial => ({
			name: `kubectl rollout restart of ${part}s while clients work: no new sandbox fails, and other calls only as documented`,
			async run() {
				console.log(`        ${await f.under(async () => {
					await f.beside('rollout', 'restart', `deployment/fleet-caisson-${part}`);
					await f.beside('rollout', 'status', `deployment/fleet-caisson-${part}`, WAIT);
				})}`);
				await f.ready(2);
			},
		})),
		{
			name: 'a third worker is used when there is one, and a drained node is left without a failed new sandbox',
			async run() {
				f.helm('upgrade', '--set', 'worker.replicas=3'); // kubectl scale would own the number, and helm's next upgrade conflict
				f.rolledOut();
				await f.ready(3);
				await f.spread(3);
				console.log(`        ${await f.under(() => f.beside('drain', 'n3', '--ignore-daemonsets', '--delete-emptydir-data', WAIT))}`);
				await f.ready(2);
				assert.match(f.kubectl('get', 'pods', '-l', 'app.kubernetes.io/component=worker'), /Pending/);
				f.kubectl('uncordon', 'n3');
				f.rolledOut();
				await f.ready(3);
			},
		},
		{
			name: 'a worker for which there is no node waits, and harms nobody',
			async run() {
				f.helm('upgrade', '--set', 'worker.replicas=4');
				await until('one is Pending', () => /Pending/.test(f.kubectl('get', 'pods', '-l', 'app.kubernetes.io/component=worker')));
				await f.ready(3);
				await f.spread(3);
				assert.equal((await f.ok('GET', '/api/v1/sandboxes')).workers_missing, undefined);
				assert.equal((await f.members()).filter((m) => m.listed).length, 3, 'it has no address, so it is no member');
				f.helm('upgrade', '--set', 'worker.replicas=3');
				f.rolledOut();
				await f.ready(3);
			},
		},
		{
			name: 'while the API server hangs, sandboxes are made and run, and the workers are the same',
			async run() {
				f.hang(true);
				try {
					const by = await f.spread(3);
					for (const [id] of by.values())
						await f.runs(id!);
					await f.ready(3);
				} finally {
					f.hang(false);
				}
				await until('the API server answers again', () => f.answers(), 60_000);
			},
		},
		{
			name: 'helm upgrade keeps key and authority, and makes new certificates when told to',
			async run() {
				const secret = (name: string): string => f.kubectl('get', 'secret', `fleet-caisson-${name}`, '-o', 'jsonpath={.data}');
				const before = ['access', 'authority', 'router', 'worker'].map(secret);
				f.helm('upgrade');
				assert.deepEqual(['access', 'authority', 'router', 'worker'].map(secret), before);
				f.helm('upgrade', '--set', 'certificates.generation=2');
				const after = ['access', 'authority', 'router', 'worker'].map(secret);
				assert.deepEqual(after.slice(0, 2), before.slice(0, 2));
				assert.ok(after[2] !== before[2] && after[3] !== before[3]);
				f.rolledOut();
				await f.ready(2);
				for (const [id] of (await f.spread(2)).values())
					await f.runs(id!);
			},
		},
		{
			name: 'an autoscaler of workers without its metric says so and leaves their number',
			async run() {
				const hpa = ['get', 'hpa', 'fleet-caisson-worker', '-o', 'json'];
				const active = (): Json | undefined => (JSON.parse(f.kubectl(...hpa)).status?.conditions as Json[] | undefined)?.find((c) => c.type === 'ScalingActive');
				assert.match(f.helm('upgrade', '--set', 'worker.autoscaling.enabled=true').stdout, /This cluster has no such adapter/);
				await until('it misses its metric', () => active()?.status === 'False' && active(), 90_000);
				assert.match(String(active()!.message), /caisson_sandboxes_claimed_ratio|custom\.metrics/);
				assert.equal(f.kubectl('get', 'deployment', 'fleet-caisson-worker', '-o', 'jsonpath={.spec.replicas}'), '2');
				await f.ready(2);
				f.helm('upgrade');
				assert.equal(f.said(...hpa).code, 1, 'it is gone');
				f.rolledOut();
			},
		},
		{
			name: 'it makes another worker when the places that are taken pass its percentage, and no more than are needed',
			async run() {
				f.adapt();
				await until('the API server has the metrics', () => f.said('get', '--raw', `/apis/custom.metrics.k8s.io/v1beta1/namespaces/${SPACE}/pods/*/caisson_sandboxes_claimed_ratio`).code === 0, 60_000);
				f.helm('upgrade', '--set', 'worker.autoscaling.enabled=true', '--set', 'worker.settings.SANDBOX_MAX_SESSIONS=8');
				f.rolledOut();
				await f.ready(2);
				const hpa = (): Json => JSON.parse(f.kubectl('get', 'hpa', 'fleet-caisson-worker', '-o', 'json')).status as Json;
				const value = (): string | undefined => (hpa().currentMetrics as Json[] | undefined)?.[0]?.pods?.current?.averageValue as string | undefined;
				await until('it sees empty workers', () => value() === '0', 60_000);
				const make = async (n: number): Promise<void> => {
					for (let i = 0; i < n; i++)
						await f.ok('POST', '/api/v1/sandboxes', {});
				};
				await make(12); // of 16 places
				await until('it sees them', () => value() === '750m', 60_000);
				assert.equal(hpa().desiredReplicas, 2);
				await make(3);
				await f.ready(3); // 15 of 24
				await until('it is content', () => value() === '625m' && hpa().desiredReplicas === 3, 60_000);
				f.helm('upgrade');
				f.rolledOut();
			},
		},
		{
			name: 'workers in pods with a user namespace of their own run code, as ids of the pod',
			async run() {
				f.helm('upgrade', '--set', 'worker.hostUsers=false');
				f.rolledOut();
				await f.ready(2);
				for (const [id] of (await f.spread(2)).values())
					await f.runs(id!);
				const worker = ['deployment/fleet-caisson-worker', '--'];
				assert.match(f.kubectl('exec', ...worker, 'cat', '/proc/self/uid_map'), /^ *0 +[1-9]\d+ +65536$/m);
				const { stdout } = f.said('exec', ...worker, 'caisson', 'doctor');
				assert.match(stdout, /own uid per sandbox +64536 ids of this container/);
				assert.match(stdout, /namespaces and mounts +all \d+ kinds/);
			},
		},
		{
			name: 'stored sandboxes of privileged workers are on their node, and there again for the next worker of that node',
			async run() {
				f.helm('upgrade', '--set', 'worker.privileged=true', '--set', 'worker.state.kind=hostPath', '--set', 'worker.replicas=3'); // with two, a new one may go to the third node
				f.rolledOut();
				await f.ready(3);
				assert.match(f.said('exec', 'deployment/fleet-caisson-worker', '--', 'caisson', 'doctor').stdout, /workspaces? .*disk/i);
				const by = new Map<string, string>(), word = randomBytes(6).toString('hex');
				for (let i = 0; i < 60 && by.size < 3; i++) {
					const id = (await f.ok('POST', '/api/v1/sandboxes', { kind: 'stored' })).id as string;
					await f.ok('POST', `/api/v1/sandboxes/${id}/runs`, { code: `open("kept", "w").write("${word}")`, wait: true });
					by.set(id.slice(5, 9), id);
				}
				assert.equal(by.size, 3, 'all workers have one');
				f.kubectl('rollout', 'restart', 'deployment/fleet-caisson-worker');
				f.rolledOut();
				await f.ready(3);
				for (const id of by.values()) {
					const said = await f.ok('POST', `/api/v1/sandboxes/${id}/runs`, { code: 'print(open("kept").read())', wait: true });
					assert.ok(JSON.stringify(said).includes(word), JSON.stringify(said));
				}
			},
		},
		{
			name: 'what is off by default is what the API server takes',
			async run() {
				const on = ['ingress.enabled=true', 'ingress.className=nginx', 'ingress.tlsSecret=tls', 'router.autoscaling.enabled=true', 'worker.autoscaling.enabled=true', 'worker.privileged=true', 'worker.state.kind=hostPath',
					'router.trustedProxies={10.0.0.0/8}', 'networkPolicy.clients[0].podSelector.matchLabels.a=b', 'networkPolicy.monitors[0].namespaceSelector.matchLabels.a=b', 'networkPolicy.workerEgress[0].ports[0].port=443'];
				const said = f.apply(f.helm('template', ...on.flatMap((v) => ['--set', v])).stdout, '--dry-run=server');
				for (const kind of ['ingress.networking.k8s.io', 'horizontalpodautoscaler.autoscaling', 'networkpolicy.networking.k8s.io', 'deployment.apps'])
					assert.match(said, new RegExp(`^${kind.replaceAll('.', '\\.')}/\\S+ \\w+ \\(server dry run\\)$`, 'm'));
			},
		},
		{
			name: 'helm uninstall leaves nothing',
			async run() {
				f.helm('uninstall', '--wait');
				await until('the pods have gone', () => f.kubectl('get', 'pods', '-o', 'name') === '', 90_000);
				const left = f.kubectl('get', 'deployments,services,secrets,configmaps,serviceaccounts,roles,rolebindings,poddisruptionbudgets,networkpolicies,endpointslices', '-o', 'name').trim().split('\n');
				assert.deepEqual(left.filter((n) => n && !['configmap/kube-root-ca.crt', 'serviceaccount/default'].includes(n)), []);
			},
		},
	];
}
