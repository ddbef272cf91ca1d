// SPDX-License-Identifier: Apache-2.0
// An adapter of metrics for the autoscaler: what prometheus-adapter does with packaging/prometheus/adapter.yaml, without a Prometheus. It asks
// the API server for the pods and each of them for its metrics. A process of its own, in the network of the control plane.
//   node adapter.ts PORT CERTIFICATE KEY API AUTHORITY TOKEN

import * as fs from 'node:fs';
import * as http from 'node:http';
import * as https from 'node:https';
import { text as content } from 'node:stream/consumers';

const [port, cert, key, api, authority, token] = process.argv.slice(2), GROUP = '/apis/custom.metrics.k8s.io/v1beta1', METRIC = 'caisson_sandboxes_claimed_ratio';

interface Pod { metadata: { name: string; namespace: string }; status: { podIP?: string } }

const get = (url: string, options: https.RequestOptions = {}): Promise<string> => new Promise((resolve, reject) => {
	const of = url.startsWith('https:') ? https : http;
	of.get(url, { ...options, timeout: 2000 }, (r) => void content(r).then(resolve, reject)).on('timeout', function (this: http.ClientRequest) { this.destroy(); }).on('error', reject);
});

async function ratio(pod: Pod): Promise<object | undefined> {
	const said = await get(`http://${pod.status.podIP}:8181/metrics`).catch(() => ''), figure = (name: string): number => Number(new RegExp(`^caisson_sandboxes_${name} (\\d+)$`, 'm').exec(said)?.[1] ?? NaN);
	const value = Math.round(1000 * figure('claimed') / figure('max'));
	return Number.isFinite(value) ? { describedObject: { kind: 'Pod', apiVersion: '/v1', namespace: pod.metadata.namespace, name: pod.metadata.name }, metricName: METRIC, timestamp: new Date().toISOString(), value: `${value}m`, selector: null } : undefined;
}

async function answer(url: URL): Promise<object | undefined> {
	if (url.pathname === GROUP)
		return { kind: 'APIResourceList', apiVersion: 'v1', groupVersion: GROUP.slice('/apis/'.length), resources: [{ name: `pods/${METRIC}`, singularName: '', namespaced: true, kind: 'MetricValueList', verbs: ['get'] }] };
	const [, space] = new RegExp(`^${GROUP}/namespaces/([^/]+)/pods/\\*/${METRIC}$`).exec(decodeURIComponent(url.pathname)) ?? [];
	if (!space)
		return undefined;
	const pods = JSON.parse(await get(`${api}/api/v1/namespaces/${space}/pods?labelSelector=${encodeURIComponent(url.searchParams.get('labelSelector') ?? '')}`, { ca: fs.readFileSync(authority!), headers: { authorization: `Bearer ${token}` } })) as { items: Pod[] };
	const items = await Promise.all(pods.items.filter((p) => p.status.podIP).map(ratio));
	return { kind: 'MetricValueList', apiVersion: GROUP.slice('/apis/'.length), metadata: {}, items: items.filter((i) => i !== undefined) };
}

https.createServer({ cert: fs.readFileSync(cert!), key: fs.readFileSync(key!) }, (req, res) => {
	const say = (status: number, body: object): void => void res.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
	answer(new URL(req.url!, 'https://localhost')).then((body) => body ? say(200, body) : say(404, { kind: 'Status', apiVersion: 'v1', status: 'Failure', code: 404 }), (e) => say(500, { kind: 'Status', apiVersion: 'v1', status: 'Failure', code: 500, message: String(e) }));
}).listen(Number(port));
