// SPDX-License-Identifier: Apache-2.0
// The container image of the server, in a Docker daemon of its own (README.md).

import * as path from 'node:path';
import { spawnSync } from 'node:child_process';
import { Count } from '../../lib/count.ts';
import { startDocker } from '../../lib/daemon.ts';
import { binary, imagesDir, top } from '../../lib/env.ts';
import { ensureImages } from '../../lib/images.ts';
import { options } from '../../lib/options.ts';
import { owned } from '../../lib/owned.ts';
import { play } from '../../lib/play.ts';
import { within } from '../../lib/wait.ts';
import { Box, docker, flags } from './box.ts';
import { cases as common, type World } from './cases.ts';
import { materialCases } from './materials.ts';

const cases = [...common, ...materialCases];
const SANDBOX_IMAGE = 'base';
const IMAGE = 'caisson:test';
const CASE_MS = 90_000;
const opt = options(`usage: tests/run container [options]
  --case REGEX   only cases whose name matches
  --archive FILE an archive that is there already, with the image base, named caisson:test (default: made anew)`, { case: { type: 'string', default: '' }, archive: { type: 'string', default: '' } });
const count = new Count();

function note(outcome: 'passed' | 'failed' | 'skipped', name: string, more = ''): void {
	console.log(`${{ passed: 'ok     ', failed: 'FAILED ', skipped: 'skip   ' }[outcome]} ${name}${more}`);
	count.add(outcome);
}

const reason = (e: unknown): string => `\n        ${String((e as Error).stack ?? e).split('\n').slice(0, 16).join('\n        ')}`;

/** The path of the archive, which is made before any daemon runs; undefined when that has failed. */
function makeArchive(): string | undefined {
	if (opt.archive)
		return opt.archive;
	const missing = ensureImages(path.dirname(binary), SANDBOX_IMAGE);
	if (missing) {
		note('failed', `the image ${missing} could not be built`);
		return undefined;
	}
	const begin = performance.now(), archive = path.join(owned('caisson-archive-', '/var/tmp'), 'caisson.tar');
	const r = spawnSync(path.join(top, 'packaging/container/make-archive'),
		['--binary', binary, '--image', SANDBOX_IMAGE, '--images', imagesDir, '--tag', IMAGE, '--out', archive], { encoding: 'utf8' });
	note(r.status === 0 ? 'passed' : 'failed', 'the archive is made without a daemon', r.status === 0 ? ` (${Math.round(performance.now() - begin)} ms)` : `\n        ${r.stdout}${r.stderr}`);
	return r.status === 0 ? archive : undefined;
}

async function playCases(w: World): Promise<void> {
	const chosen = cases.filter((c) => new RegExp(opt.case).test(c.name));
	await play(chosen.map((c) => ({ name: c.name, run: () => within(c.name, Promise.resolve(c.run(w)), CASE_MS) })), count);
}

async function main(): Promise<void> {
	if (process.getuid!() !== 0) {
		note('skipped', 'a daemon of our own needs root');
		return;
	}
	const archive = makeArchive();
	if (!archive)
		return;
	const daemon = await startDocker();
	if (typeof daemon === 'string') {
		// CI has what is needed: there a skip would hide a failure.
		note(process.env.CAISSON_STRICT === '1' ? 'failed' : 'skipped', daemon);
		return;
	}
	try {
		const loaded = docker(daemon, ['load', '--input', archive]);
		if (loaded.code !== 0)
			throw new Error(`docker load: ${loaded.stdout}${loaded.stderr}`);
		const box = await Box.start(daemon, 'comfortable', flags('compose.yaml', 'comfortable'), IMAGE);
		await playCases({ daemon, archive, image: IMAGE, box });
	} catch (e) {
		note('failed', 'a container with the flags of compose.yaml', reason(e));
	} finally {
		for (const id of docker(daemon, ['ps', '--all', '--quiet']).stdout.split('\n').filter(Boolean))
			docker(daemon, ['rm', '--force', id]);
		await daemon.stop();
	}
}

await main();
count.close();
