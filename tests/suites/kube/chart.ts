// SPDX-License-Identifier: Apache-2.0
// What the chart writes, as helm renders it without a cluster.

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { spawnSync } from 'node:child_process';
import { scratch, top } from '../../lib/env.ts';

const chart = path.join(top, 'packaging/chart');

/** Everything that is off by default. */
const ALL = {
	image: { repository: 'registry.example/caisson', tag: '1.2', pullSecrets: ['pull'] },
	database: { existingSecret: 'database' },
	objects: { endpoint: 'https://s3.example.org', bucket: 'sandboxes', pathStyle: true, existingSecret: 'objects', caConfigMap: 'authority' },
	router: {
		hosts: ['other.example'], publicUrl: 'https://sandbox.example.org', trustedProxies: ['10.0.0.0/8'], settings: { SANDBOX_LOG_LEVEL: 'debug' },
		autoscaling: { enabled: true }, nodeSelector: { a: 'b' }, tolerations: [{ operator: 'Exists' }], podAnnotations: { a: 'b' }, priorityClassName: 'high',
	},
	worker: {
		privileged: true, settings: { SANDBOX_POOL: 4 }, state: { kind: 'hostPath', hostPath: '/srv/caisson' }, nodeSelector: { a: 'b' }, tolerations: [{ operator: 'Exists' }],
		autoscaling: { enabled: true, metrics: [{ type: 'External', external: { metric: { name: 'open' }, target: { type: 'AverageValue', averageValue: '20' } } }] },
		seccompProfile: { type: 'Localhost', localhostProfile: 'caisson.json' },
	},
	ingress: { enabled: true, host: 'sandbox.example.org', className: 'nginx', tlsSecret: 'tls', annotations: { a: 'b' } },
	httpRoute: { enabled: true, parentRefs: [{ name: 'gateway' }], hostnames: ['gateway.example.org'] },
	networkPolicy: { clients: [{ podSelector: {} }], monitors: [{ namespaceSelector: {} }], workerEgress: [{ ports: [{ port: 443 }] }] },
	serviceMonitor: { enabled: true, labels: { release: 'prometheus' } },
};

interface Said { code: number | null; text: string }

export function chartCases(helm: string): { name: string; run(): Promise<void> }[] {
	const folder = scratch('chart');
	const run = (argv: string[], env: Record<string, string> = {}): Said => {
		const r = spawnSync(argv[0]!, argv.slice(1), { encoding: 'utf8', env: { PATH: process.env.PATH!, HOME: folder, ...env } });
		return { code: r.status, text: r.stdout + r.stderr };
	};
	/** Documents of the chart with these values, by `Kind/name`. */
	const render = (values: unknown): Map<string, string> => {
		const r = template(values);
		assert.equal(r.code, 0, r.text);
		return new Map(r.text.split(/^---\n/m).filter((d) => /^kind:/m.test(d)).map((d) => [`${/^kind: (\w+)/m.exec(d)![1]}/${/^ {2}name: (\S+)/m.exec(d)![1]}`, d]));
	};
	const file = (values: unknown): string => {
		const name = path.join(folder, 'values.json');
		fs.writeFileSync(name, JSON.stringify(values));
		return name;
	};
	const template = (values: unknown): Said => run([helm, 'template', 'fleet', chart, '--namespace', 'sandboxes', '--values', file(values), '--api-versions', 'gateway.networking.k8s.io/v1']);

	return [
		{
			name: 'helm finds nothing wrong with it, as it is and with everything on',
			async run() {
				const version = fs.readFileSync(path.join(top, 'VERSION'), 'utf8').trim();
				assert.match(fs.readFileSync(path.join(chart, 'Chart.yaml'), 'utf8'), new RegExp(`^version: ${version}\nappVersion: "${version}"$`, 'm'));
				for (const values of [{}, ALL]) {
					const r = run([helm, 'lint', '--strict', chart, '--values', file(values)]);
					assert.equal(r.code, 0, r.text);
				}
			},
		},
		{
			name: 'pods have the rights that they need and no more, and only routers have an account',
			async run() {
				const docs = render({}), router = docs.get('Deployment/fleet-caisson-router')!, worker = docs.get('Deployment/fleet-caisson-worker')!;
				for (const line of ['runAsNonRoot: true', 'readOnlyRootFilesystem: true', 'capabilities: {drop: [ALL]}', 'allowPrivilegeEscalation: false', 'automountServiceAccountToken: true'])
					assert.ok(router.includes(line), line);
				for (const line of ['automountServiceAccountToken: false', 'allowPrivilegeEscalation: false', 'readOnlyRootFilesystem: true', 'requiredDuringSchedulingIgnoredDuringExecution'])
					assert.ok(worker.includes(line), line);
				assert.ok(!/privileged|hostNetwork|hostPID|hostPath/.test(worker), worker);
				/* Those of compose.yaml, whose README says what each is for. */
				const wanted = /cap_add:\n((?: {6}- \w+\n)+)/.exec(fs.readFileSync(path.join(top, 'packaging/container/compose.yaml'), 'utf8'))![1]!.match(/\w+/g)!;
				assert.deepEqual(/add:\n((?: +- \w+.*\n)+)/.exec(worker)![1]!.match(/- \w+/g)!.map((w) => w.slice(2)).sort(), wanted.sort());
				const own = render({ worker: { hostUsers: false } }).get('Deployment/fleet-caisson-worker')!;
				assert.ok(/hostUsers: false/.test(own) && /procMount: Unmasked/.test(own), own);
				assert.ok(!/hostUsers|procMount/.test(worker), worker);
				const rules = /rules:\n([\s\S]*)/.exec(docs.get('Role/fleet-caisson-router')!)![1]!;
				assert.equal(rules.trim().replace(/\s+/g, ' '), '- apiGroups: [discovery.k8s.io] resources: [endpointslices] verbs: [list, watch]');
				assert.ok(![...docs.keys()].some((k) => k.startsWith('Cluster')), [...docs.keys()].join());
			},
		},
		{
			name: 'certificates name their role, are of one authority, and no pod has its key',
			async run() {
				const docs = render({});
				const pem = (secret: string, key: string): string => {
					const text = new RegExp(`^ {2}${key.replace('.', '\\.')}: (\\S+)$`, 'm').exec(docs.get(`Secret/fleet-caisson-${secret}`)!)![1]!;
					fs.writeFileSync(path.join(folder, `${secret}-${key}`), Buffer.from(text, 'base64'));
					return path.join(folder, `${secret}-${key}`);
				};
				const authority = pem('authority', 'tls.crt'), key = fs.readFileSync(pem('authority', 'fleet.key'));
				assert.equal(key.length, 32);
				for (const role of ['router', 'worker']) {
					const r = run(['openssl', 'verify', '-CAfile', authority, pem(role, 'tls.crt')]);
					assert.equal(r.code, 0, r.text);
					assert.match(run(['openssl', 'x509', '-in', pem(role, 'tls.crt'), '-noout', '-ext', 'subjectAltName']).text, new RegExp(`\\n\\s*DNS:${role}\\.caisson\\.internal\\s*$`));
					const end = Date.parse(run(['openssl', 'x509', '-in', pem(role, 'tls.crt'), '-noout', '-enddate']).text.replace('notAfter=', ''));
					const until = Date.parse(/caisson\/until: "(\S+)"/.exec(docs.get(`Secret/fleet-caisson-${role}`)!)![1]!);
					assert.ok(end >= until - 60_000 && end < until + 86_400_000 + 60_000, `${new Date(end).toISOString()} ${new Date(until).toISOString()}`);
					assert.deepEqual(fs.readFileSync(pem(role, 'ca.crt')), fs.readFileSync(authority));
					assert.deepEqual(fs.readFileSync(pem(role, 'fleet.key')), key);
					assert.match(docs.get(`Deployment/fleet-caisson-${role}`)!, new RegExp(`secretName: fleet-caisson-${role}[,}]`));
				}
				for (const [name, text] of docs)
					assert.ok(!name.startsWith('Deployment') || !text.includes('authority'), name);
				const given = render({ certificates: { existingRouterSecret: 'r', existingWorkerSecret: 'w' }, access: { existingSecret: 'a' } });
				assert.deepEqual([...given.keys()].filter((k) => k.startsWith('Secret')), []);
				assert.match(given.get('Deployment/fleet-caisson-worker')!, /secretName: w[,}]/);
			},
		},
		{
			name: 'with everything on, each part is there, and hosts are those by which clients come',
			async run() {
				const docs = render(ALL);
				for (const kind of ['Ingress', 'HTTPRoute', 'ServiceMonitor', 'PodMonitor', 'HorizontalPodAutoscaler', 'PodDisruptionBudget', 'NetworkPolicy'])
					assert.ok([...docs.keys()].some((k) => k.startsWith(`${kind}/`)), kind);
				const router = docs.get('Deployment/fleet-caisson-router')!;
				assert.match(router, /name: SANDBOX_ALLOWED_HOSTS\s+value: fleet-caisson-router,fleet-caisson-router\.sandboxes,\S*sandbox\.example\.org,gateway\.example\.org,other\.example\n/);
				assert.match(router, /name: SANDBOX_LOG_LEVEL\s+value: debug\n/);
				assert.ok(!/^ {2}replicas:/m.test(router), 'an autoscaler and the chart would fight');
				assert.match(docs.get('Deployment/fleet-caisson-worker')!, /privileged: true/);
				assert.match(docs.get('Deployment/fleet-caisson-worker')!, /hostPath: \{path: "\/srv\/caisson\/sandboxes\/fleet"/);
				assert.ok(!docs.get('Service/fleet-caisson-router')!.includes('sessionAffinity'));
				assert.ok(render({}).get('Service/fleet-caisson-router')!.includes('sessionAffinity'));
			},
		},
		{
			name: 'workers can have another version than routers, and policies name ports by number',
			async run() {
				const docs = render({ image: { repository: 'r', tag: '2' }, router: { tag: '1' } });
				assert.match(docs.get('Deployment/fleet-caisson-router')!, /image: "r:1"/);
				assert.match(docs.get('Deployment/fleet-caisson-worker')!, /image: "r:2"/);
				for (const role of ['router', 'worker'])
					assert.ok(!/port: [a-z]/.test(docs.get(`NetworkPolicy/fleet-caisson-${role}`)!));
			},
		},
		{
			name: 'settings of the operator replace those of the chart, so that no name is there twice, and numbers stay numbers',
			async run() {
				const settings = { SANDBOX_FLEET_NAME: 'mine', SANDBOX_LISTEN: '[::]:8181', SANDBOX_MEMORY_BYTES: 4294967296, SANDBOX_REQUIRE_AUTH: false, SANDBOX_SHARE: 0.5 };
				const docs = render({ router: { settings }, worker: { settings } });
				for (const [role, own] of [['router', 'SANDBOX_FLEET_WORKERS'], ['worker', 'SANDBOX_TLS_LISTEN']] as const) {
					const env = /env:\n([\s\S]*?)\n {10}\w/.exec(docs.get(`Deployment/fleet-caisson-${role}`)!)![1]!, names = env.match(/SANDBOX_\w+$/gm)!;
					assert.equal(new Set(names).size, names.length, env);
					assert.ok(names.includes(own), env);
					for (const [name, value] of Object.entries(settings))
						assert.match(env, new RegExp(`name: ${name}\\s+value: ${value === 'mine' ? '' : `['"]`}${String(value).replace(/[[\]]/g, '\\$&')}['"]?(\n|$)`));
				}
				assert.match(render({}).get('Deployment/fleet-caisson-worker')!, /name: SANDBOX_FLEET_NAME\s+valueFrom:\s+fieldRef:\s+fieldPath: spec\.nodeName/);
			},
		},
		{
			name: 'routers alone have the credentials of the object store, and both its authority',
			async run() {
				const docs = render(ALL), router = docs.get('Deployment/fleet-caisson-router')!, worker = docs.get('Deployment/fleet-caisson-worker')!;
				for (const [name, value] of Object.entries({ ENDPOINT: 'https://s3.example.org', BUCKET: 'sandboxes', REGION: 'us-east-1', PATH_STYLE: '"on"', CREDENTIALS: '/etc/caisson/objects/credentials', KEY: '/etc/caisson/objects/snapshots.key', CA: '/etc/caisson/objects-ca/ca.crt' }))
					assert.ok(router.includes(`- name: SANDBOX_OBJECTS_${name}\n              value: ${value}\n`), `${name}\n${router}`);
				assert.match(router, /- \{name: objects, mountPath: \/etc\/caisson\/objects, readOnly: true\}\n[^]*- name: objects\n +secret: \{secretName: objects, defaultMode: 0440\}\n/);
				assert.deepEqual(worker.match(/SANDBOX_OBJECTS_\w+|secretName: \S+/g), ['SANDBOX_OBJECTS_CA', 'secretName: fleet-caisson-worker,']);
				for (const one of [router, worker])
					assert.match(one, /- \{name: objects-ca, mountPath: \/etc\/caisson\/objects-ca, readOnly: true\}\n[^]*- name: objects-ca\n +configMap: \{name: authority\}\n/);
				assert.ok(![...render({}).values()].join().includes('objects'));
				for (const without of [{ objects: { ...ALL.objects, bucket: '' } }, { objects: { ...ALL.objects, existingSecret: '' } }, { database: { existingSecret: '' } }, { worker: { privileged: false } }]) {
					const r = template({ ...ALL, ...without });
					assert.ok(r.code !== 0 && r.text.includes('objects.endpoint needs'), r.text);
				}
			},
		},
		{
			name: 'the number of workers follows the places that are taken, or what the operator names',
			async run() {
				const hpa = (worker: unknown): string | undefined => render({ worker }).get('HorizontalPodAutoscaler/fleet-caisson-worker');
				assert.equal(hpa({}), undefined, 'off by default: a cluster may have no such metric');
				const own = hpa({ autoscaling: { enabled: true, minReplicas: 3, maxReplicas: 9, claimedPercent: 60 } })!;
				assert.match(own, /minReplicas: 3\n {2}maxReplicas: 9\n/);
				assert.match(own, /metrics:.*\n {4}- type: Pods\n {6}pods:\n {8}metric: \{name: caisson_sandboxes_claimed_ratio\}\n {8}target: \{type: AverageValue, averageValue: 600m\}\n/);
				assert.match(hpa({ autoscaling: { enabled: true } })!, /averageValue: 750m/);
				const other = hpa(ALL.worker)!;
				assert.ok(/name: open/.test(other) && !other.includes('claimed'), other);
				assert.ok(!/^ {2}replicas:/m.test(render({ worker: { autoscaling: { enabled: true } } }).get('Deployment/fleet-caisson-worker')!), 'an autoscaler and the chart would fight');
			},
		},
		{
			name: 'an Ingress leads all of one host to the routers, with or without TLS, and a Gateway likewise',
			async run() {
				const docs = render({ ingress: { enabled: true, host: 'box.example.org' } }), ingress = docs.get('Ingress/fleet-caisson')!;
				assert.match(ingress, /- host: "box\.example\.org"\n {6}http:\n {8}paths:\n {10}- path: \/\n {12}pathType: Prefix\n {12}backend: \{service: \{name: fleet-caisson-router, port: \{name: http\}\}\}\n/);
				assert.ok(!/tls|ingressClassName|annotations/.test(ingress), ingress);
				assert.match(docs.get('Service/fleet-caisson-router')!, /- \{name: http, port: 80, targetPort: http\}/);
				assert.match(docs.get('Deployment/fleet-caisson-router')!, /SANDBOX_ALLOWED_HOSTS\s+value: \S+,box\.example\.org\n/);
				assert.ok(!docs.has('HTTPRoute/fleet-caisson'));
				const all = render(ALL), whole = all.get('Ingress/fleet-caisson')!;
				for (const line of ['ingressClassName: nginx', 'tls: [{hosts: ["sandbox.example.org"], secretName: tls}]', '    a: b'])
					assert.ok(whole.includes(line), line);
				assert.match(all.get('HTTPRoute/fleet-caisson')!, /hostnames:\s+- gateway\.example\.org\s+rules:\s+- backendRefs: \[\{name: fleet-caisson-router, port: 80\}\]/);
				assert.match(all.get('Deployment/fleet-caisson-router')!, /SANDBOX_TRUSTED_PROXIES\s+value: 10\.0\.0\.0\/8\n/);
				assert.match(render({ ingress: { enabled: true }, service: { port: 8080 } }).get('Ingress/fleet-caisson')!, /port: \{name: http\}/);
			},
		},
		{
			name: 'a worker that is privileged has that instead of its capabilities, and a folder of its release on the node',
			async run() {
				const worker = render({ worker: { privileged: true, state: { kind: 'hostPath', hostPath: '/srv/' } } }).get('Deployment/fleet-caisson-worker')!;
				assert.match(worker, /privileged: true/);
				/* The API server refuses the one with the other. */
				assert.ok(!/allowPrivilegeEscalation|capabilities|hostUsers|procMount/.test(worker), worker);
				assert.match(worker, /- name: state\n {10}hostPath: \{path: "\/srv\/sandboxes\/fleet", type: DirectoryOrCreate\}/);
				assert.ok(!/emptyDir: \{sizeLimit/.test(worker));
				assert.match(worker, /fieldPath: spec\.nodeName/);
				assert.match(render({ worker: { state: { sizeLimit: '9Gi' } } }).get('Deployment/fleet-caisson-worker')!, /- name: state\n {10}emptyDir: \{sizeLimit: 9Gi\}/);
				const both = template({ worker: { privileged: true, hostUsers: false } });
				assert.ok(both.code !== 0 && /worker\.privileged: true needs worker\.hostUsers: true/.test(both.text), both.text);
			},
		},
		{
			name: 'monitors of workers alone need no key',
			async run() {
				const key = (docs: Map<string, string>): string[] => [...docs].filter(([name, text]) => /Monitor/.test(name) && text.includes('api-key')).map(([name]) => name);
				assert.deepEqual(key(render({ serviceMonitor: { enabled: true } })), ['ServiceMonitor/fleet-caisson-router']);
				const workers = render({ serviceMonitor: { enabled: true, routers: false } });
				assert.deepEqual([key(workers), workers.has('PodMonitor/fleet-caisson-worker'), workers.has('ServiceMonitor/fleet-caisson-router')], [[], true, false]);
			},
		},
		{
			name: 'the notes say what is missing of what was chosen',
			async run() {
				const notes = (values: unknown): string => {
					const r = run([helm, 'install', 'fleet', chart, '--dry-run=client', '--namespace', 'sandboxes', '--values', file(values)], { KUBECONFIG: path.join(folder, 'none') });
					assert.equal(r.code, 0, r.text);
					return r.text.slice(r.text.indexOf('NOTES:'));
				};
				const rows: [RegExp, unknown, unknown][] = [
					[/count as one address/, { ingress: { enabled: true } }, { ingress: { enabled: true }, router: { trustedProxies: ['10.0.0.0/8'] } }],
					[/This cluster has no such adapter/, { worker: { autoscaling: { enabled: true } } }, { worker: ALL.worker }],
					[/There are no stored sandboxes/, { worker: { state: { kind: 'hostPath' } } }, { worker: { privileged: true, state: { kind: 'hostPath' } } }],
				];
				for (const [line, lacks, has] of rows) {
					assert.match(notes(lacks), line);
					assert.doesNotMatch(notes(has), line);
				}
			},
		},
		{
			name: 'what is misspelt or half given is refused with its name',
			async run() {
				const wrong: [unknown, RegExp][] = [
					[{ worker: { replica: 3 } }, /replica/], [{ workers: {} }, /workers/], [{ worker: { state: { kind: 'disk' } } }, /kind/], [{ worker: { maxUnavailable: 0 } }, /maxUnavailable/], [{ worker: { maxUnavailable: '0%' } }, /maxUnavailable/], [{ router: { settings: { sandbox_pool: 1 } } }, /sandbox_pool/],
					[{ worker: { seccompProfile: { type: 'RuntimeDefault' } } }, /seccompProfile/], [{ certificates: { existingRouterSecret: 'r' } }, /name both, or neither/],
					[{ httpRoute: { enabled: true } }, /httpRoute\.parentRefs/], [{ worker: { autoscaling: { enabled: true, minReplicas: 9, maxReplicas: 3 } } }, /minReplicas is above maxReplicas/], [{ worker: { autoscaling: { claimedPercent: 0 } } }, /claimedPercent/],
					[{ router: { settings: { SANDBOX_API_KEY: 'x' } } }, /access\.existingSecret/], [{ worker: { settings: { SANDBOX_DATABASE: 'x' } } }, /database\.existingSecret/],
				];
				for (const [values, why] of wrong) {
					const r = template(values);
					assert.notEqual(r.code, 0, JSON.stringify(values));
					assert.match(r.text, why);
				}
			},
		},
		{
			name: 'packaging/chart/render writes the manifests',
			async run() {
				const r = run([path.join(chart, 'render'), '--namespace', 'sandboxes'], { HELM: helm });
				assert.equal(r.code, 0, r.text);
				assert.match(r.text, /endpointslices:sandboxes\/caisson-workers:8443/);
				assert.notEqual(run([path.join(chart, 'render')], { HELM: '/nowhere' }).code, 0);
			},
		},
	];
}
