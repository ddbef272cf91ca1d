// SPDX-License-Identifier: Apache-2.0
// The wheels and the npm packages (README.md).

import './mode.ts';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { Count } from '../../lib/count.ts';
import { binary, scratch, top } from '../../lib/env.ts';
import { ensureImages } from '../../lib/images.ts';
import { options } from '../../lib/options.ts';
import { play } from '../../lib/play.ts';
import { pythonEnvironment } from '../../lib/python.ts';
import { within } from '../../lib/wait.ts';
import { bridgeCases } from './bridges.ts';
import { installCases } from './installs.ts';
import { materialCases } from './materials.ts';
import { stubCases } from './stub_cases.ts';
import { must, packed, unpack } from './world.ts';

const CASE_MS = 240_000;
const opt = options(`usage: tests/run packages [options]   wheels and npm packages: what is in them, each installer, both bridges
  --tree DIR     what packaging/release/build made (default: that in build/release; if there is none, the program in build/, which runs here alone)
  --case REGEX   only cases whose name matches`, { tree: { type: 'string' }, case: { type: 'string', default: '' } });
const count = new Count();
const version = fs.readFileSync(path.join(top, 'VERSION'), 'utf8').trim();

/** The program in build/ as `make install` would lay it out. */
function installed(): string {
	const folder = scratch('tree');
	must(['meson', 'install', '-C', path.dirname(binary), '--no-rebuild', '--quiet'], { env: { ...process.env as Record<string, string>, DESTDIR: folder } });
	return path.join(folder, 'usr/local');
}

async function main(): Promise<void> {
	const missing = ensureImages(path.dirname(binary), 'base');
	if (missing)
		throw new Error(`the image ${missing} could not be built`);
	const release = path.join(top, `build/release/caisson-${version}-linux-x86_64`);
	const given = opt.tree ?? (fs.existsSync(release) ? release : undefined);
	const tree = given ? path.resolve(given) : installed();
	const out = scratch('packages'), wheels = path.join(out, 'pypi'), archives = path.join(out, 'npm');
	for (const kind of ['pypi', 'npm'] as const)
		packed(kind, ['--tree', tree, '--out', path.join(out, kind), ...(given ? [] : ['--here'])]);
	must(['chmod', '-R', 'a+rX', out]);
	const uv = scratch('uv');
	for (const name of ['uv', 'uvx'])
		fs.copyFileSync(path.join(pythonEnvironment('packages', path.join(import.meta.dirname, 'requirements.txt')), name), path.join(uv, name));
	must(['chmod', '-R', 'a+rX', uv]);
	const world = unpack({ wheels, archives, version, portable: given !== undefined, uv }, process.execPath);
	const bridges = await bridgeCases(world);
	try {
		const cases = [...installCases(world, tree), ...materialCases(world, tree), ...stubCases(world), ...bridges.cases].filter((c) => new RegExp(opt.case).test(c.name));
		await play(cases.map((c) => ({ name: c.name, run: () => within(c.name, c.run(), CASE_MS) })), count);
	} finally {
		await bridges.stop();
	}
}

try {
	await main();
} catch (e) {
	console.log(`FAILED  the preparation\n        ${String((e as Error).stack ?? e).split('\n').join('\n        ')}`);
	count.add('failed');
}
count.close();
