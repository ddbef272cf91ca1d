// SPDX-License-Identifier: Apache-2.0
// Alerts and dashboard of a fleet (README.md).

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { Count } from '../../lib/count.ts';
import { findProgram } from '../../lib/debian.ts';
import { newStateDir, scratch, top } from '../../lib/env.ts';
import { Authority, FakeWorker, idsOf, routerUid, underRouter } from '../../lib/fake-workers.ts';
import { options } from '../../lib/options.ts';
import { play, type Trial } from '../../lib/play.ts';
import { serve } from '../../lib/session.ts';

options('usage: tests/run alerts   alerts and dashboard of packaging/prometheus, with promtool', {});
const from = path.join(top, 'packaging/prometheus'), named = process.env.CAISSON_PROMTOOL;
const found = named ? { program: named } : findProgram('promtool', 'promtool', 'prometheus'), promtool = 'program' in found ? found.program : '';
const read = (file: string): string => fs.readFileSync(path.join(from, file), 'utf8');
const missing = 'missing' in found ? found.missing : spawnSync(promtool, ['--version']).status === 0 ? '' : `${promtool} does not start`;

/** Why a case of promtool cannot run; with CAISSON_STRICT=1 that is a failure. "": it can. */
function cannot(): string {
	assert.ok(!missing || process.env.CAISSON_STRICT !== '1', missing);
	return missing;
}

function tool(folder: string, ...args: string[]): { ok: boolean; text: string } {
	const r = spawnSync(promtool, args, { cwd: folder, encoding: 'utf8' });
	return { ok: r.status === 0, text: `${r.stdout}${r.stderr}` };
}

/** What /metrics of a router with one worker has: names, and names with a label. */
async function exported(): Promise<Set<string>> {
	const dir = scratch('alerts'), keyFile = path.join(dir, 'key'), list = path.join(dir, 'workers'), KEY = 'k'.repeat(40), state = newStateDir();
	fs.chmodSync(path.dirname(dir), 0o711);
	const authority = new Authority(dir), mine = authority.certificate('router');
	fs.writeFileSync(keyFile, randomBytes(32));
	const worker = await new FakeWorker('ab3', authority.certificate('worker'), authority.ca, idsOf(keyFile, 'ab3', 2)).listen();
	fs.writeFileSync(list, `${worker.at}\n`);
	[dir, keyFile, list, mine.cert, mine.key, authority.ca, state].forEach((f) => fs.chownSync(f, routerUid, routerUid));
	const { program, base } = await serve({ profile: 'full', under: underRouter, env: {
		SANDBOX_STATE_DIR: state, SANDBOX_ROLE: 'router', SANDBOX_FLEET_WORKERS: list, SANDBOX_FLEET_KEY: keyFile, SANDBOX_FLEET_CA: authority.ca,
		SANDBOX_FLEET_CERTIFICATE: mine.cert, SANDBOX_FLEET_CERTIFICATE_KEY: mine.key, SANDBOX_API_KEY: KEY,
	} });
	const text = await (await fetch(`${base}/metrics`, { headers: { 'x-api-key': KEY } })).text();
	worker.close();
	program.kill('SIGTERM');
	await program.exit;
	return new Set([...text.matchAll(/^(caisson_\w+)(?:\{(.*)\})? /gm)].flatMap(([, name, labels]) => [name!, ...[...(labels ?? '').matchAll(/(\w+)="([^"]*)"/g)].map((l) => `${name}{${l[1]}="${l[2]}"}`)]));
}

const trials: Trial[] = [{
	name: 'promtool reads the rules, and each fires when it should',
	run: async () => {
		if (cannot())
			return missing;
		for (const args of [['check', 'rules', 'rules.yaml'], ['test', 'rules', 'rules.test.yaml']]) {
			const r = tool(from, ...args);
			assert.ok(r.ok, r.text);
		}
		return undefined;
	},
}, {
	name: 'a rule with another limit fails the test',
	run: async () => {
		if (cannot())
			return missing;
		for (const [before, after] of [['> 0.05', '> 0.5'], ['for: 15m', 'for: 1m'], ['state="lost"', 'state="gone"'], ['code="fleet_full"', 'code="full"'], ['== 0', '== 9'], ['< 14 *', '< 20 *'], ['< 2 *', '< 0 *'], ['min by (use)', 'max by (use)'], ['caisson_store_connected == 0', 'caisson_store_connected == 9'], ['> 0.9', '> 0.99'], ['sandboxes_max) > 0.9\n        for: 10m', 'sandboxes_max) > 0.9\n        for: 1m']] as const) {
			const folder = scratch('rules');
			assert.ok(read('rules.yaml').includes(before), before);
			fs.writeFileSync(path.join(folder, 'rules.yaml'), read('rules.yaml').replaceAll(before, after));
			fs.writeFileSync(path.join(folder, 'rules.test.yaml'), read('rules.test.yaml'));
			assert.ok(!tool(folder, 'test', 'rules', 'rules.test.yaml').ok, after);
		}
		return undefined;
	},
}, {
	name: 'members export every metric and label that rules and dashboard name',
	run: async () => {
		const there = await exported(), dashboard = JSON.parse(read('dashboard.json')) as { panels: { targets: { expr: string }[] }[] };
		const expressions = [...read('rules.yaml').matchAll(/expr: (.*)/g)].map((m) => m[1]!).concat(dashboard.panels.flatMap((p) => p.targets.map((t) => t.expr)));
		assert.ok(expressions.length > 12);
		/* What other members export: a router with a PostgreSQL database, and workers. Tests look at it there. */
		const source = (file: string): string => fs.readFileSync(path.join(top, 'tests', file), 'utf8'), routers = source('suites/postgres/routers.ts'), workers = source('integration/fleet_worker.test.ts');
		const ofRouters = ['caisson_store_connected', 'caisson_store_copy_age_seconds'], ofWorkers = ['caisson_sandboxes_claimed', 'caisson_sandboxes_max'], elsewhere = [...ofRouters, ...ofWorkers];
		for (const name of ofRouters)
			assert.ok(routers.includes(`'${name.slice('caisson_store_'.length)}'`), name);
		for (const name of ofWorkers)
			assert.ok(workers.includes(`figure('${name.slice('caisson_'.length)}')`) && !there.has(name), name);
		for (const e of expressions)
			for (const [, name, label] of e.matchAll(/(caisson_\w+)(\{[^}]*\})?/g))
				assert.ok(elsewhere.includes(name!) || there.has(`${name}${label ?? ''}`), `${name}${label ?? ''} of ${e}`);
	},
}, {
	name: 'the rule of the adapter gives the ratio of each worker, under the name that the chart follows',
	run: async () => {
		const rule = read('adapter.yaml'), query = /metricsQuery: (.*)/.exec(rule)![1]!, made = /as: (\w+)/.exec(rule)![1]!;
		assert.ok(fs.readFileSync(path.join(top, 'packaging/chart/templates/worker.yaml'), 'utf8').includes(`metric: {name: ${made}}`), made);
		assert.ok(read('rules.yaml').includes(/seriesQuery: '(\w+)\{/.exec(rule)![1]!));
		if (cannot())
			return missing;
		/* As the adapter asks for a metric of pods. */
		const asked = query.replaceAll('<<.LabelMatchers>>', 'namespace="sandboxes",pod=~"w1|w2"').replaceAll('<<.GroupBy>>', 'pod');
		assert.ok(!asked.includes('<<'), asked);
		const folder = scratch('adapter'), series = (name: string, labels: string, n: number): object => ({ series: `caisson_sandboxes_${name}{namespace="sandboxes",instance="10.0.0.1:8181",${labels}}`, values: `${n}x10` });
		fs.writeFileSync(path.join(folder, 'test.yaml'), JSON.stringify({ tests: [{
			interval: '30s',
			input_series: [series('claimed', 'pod="w1"', 60), series('max', 'pod="w1"', 80), series('claimed', 'pod="w2"', 0), series('max', 'pod="w2"', 80), series('claimed', 'pod="other"', 9), series('max', 'pod="other"', 9)],
			promql_expr_test: [{ expr: asked, eval_time: '3m', exp_samples: [{ labels: '{pod="w1"}', value: 0.75 }, { labels: '{pod="w2"}', value: 0 }] }],
		}] }));
		const r = tool(folder, 'test', 'rules', 'test.yaml');
		assert.ok(r.ok, r.text);
		return undefined;
	},
}, {
	name: 'the guide says of each alert what to do',
	run: async () => {
		const guide = fs.readFileSync(path.join(top, 'docs/operating.md'), 'utf8');
		const names = [...read('rules.yaml').matchAll(/alert: (\w+)/g)].map((m) => m[1]!);
		assert.ok(names.length > 0);
		for (const name of names)
			assert.ok(guide.includes(`| \`${name}\` |`), name);
		for (const [, name] of guide.matchAll(/^\| `(Caisson\w+)` \|/gm))
			assert.ok(names.includes(name!), `${name} is no alert`);
	},
}];

const count = new Count();
await play(trials, count);
count.close();
