// SPDX-License-Identifier: Apache-2.0
// The chart of packaging/chart, as helm renders it and in a real cluster (README.md).

import * as path from 'node:path';
import { spawnSync } from 'node:child_process';
import { Count } from '../../lib/count.ts';
import { imagesDir, scratch, top } from '../../lib/env.ts';
import { ensureImages } from '../../lib/images.ts';
import { options } from '../../lib/options.ts';
import { play } from '../../lib/play.ts';
import { within } from '../../lib/wait.ts';
import { chartCases } from './chart.ts';
import { Cluster } from './cluster.ts';
import { Fleet, fleetCases } from './fleet.ts';

const NODES = 3, CASE_MS = 300_000, IMAGE = 'docker.io/library/caisson:tests';
const opt = options(`usage: tests/run kube [options]   the chart of packaging/chart, and a fleet in a real cluster of this machine
  --chart          the chart alone: no cluster is built or started
  --archive FILE   the image of the server, with the name ${IMAGE}; without it packaging/container/make-archive makes one
  --case REGEX     only cases of the chart whose name matches; those of the cluster need each other`, {
	chart: { type: 'boolean', default: false }, archive: { type: 'string', default: '' }, case: { type: 'string', default: '' } });
const count = new Count();

function leaveOut(why: string): void {
	const strict = process.env.CAISSON_STRICT === '1';
	console.log(`${strict ? 'FAILED' : 'skip  '}  ${why}`);
	count.add(strict ? 'failed' : 'skipped');
}

/** The folder with the programs, or undefined where they can be neither found nor built. */
function programs(...which: string[]): string | undefined {
	const built = spawnSync(path.join(top, 'tests/suites/kube/build'), which, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] });
	if (built.status === 0)
		return built.stdout.trim();
	leaveOut(`${which[0] ?? 'a cluster'} could not be built`);
	return undefined;
}

function archive(): string {
	if (opt.archive)
		return path.resolve(opt.archive as string);
	const missing = ensureImages(path.join(top, 'build'), 'base');
	if (missing)
		throw new Error(`the image ${missing} could not be built`);
	const file = path.join(scratch('kube-image'), 'caisson.tar');
	const r = spawnSync(path.join(top, 'packaging/container/make-archive'), ['--image', 'base', '--images', imagesDir, '--tag', IMAGE, '--out', file], { encoding: 'utf8' });
	if (r.status !== 0)
		throw new Error(r.stderr);
	return file;
}

async function inCluster(): Promise<void> {
	if (process.getuid!() !== 0)
		return leaveOut('a cluster needs root');
	const folder = programs();
	if (!folder)
		return;
	const image = archive(), cluster = new Cluster(folder);
	try {
		const began = Date.now();
		await cluster.start(NODES);
		console.log(`        ${NODES} nodes are ready after ${Date.now() - began} ms`);
		cluster.load(image);
		await play(fleetCases(new Fleet(cluster, IMAGE)).map((c) => ({ name: c.name, run: () => within(c.name, c.run(), CASE_MS) })), count);
	} catch (e) {
		throw new Error(`${String(e)}\n${cluster.logs()}`);
	} finally {
		await cluster.stop();
	}
}

const helm = programs('helm');
if (helm)
	await play(chartCases(path.join(helm, 'helm')).filter((c) => new RegExp(opt.case as string).test(c.name)), count);
if (!opt.chart && !opt.case)
	await inCluster();
count.close();
