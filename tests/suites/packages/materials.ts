// SPDX-License-Identifier: Apache-2.0
// What every delivered thing says of its parts: bills of materials in both forms, read by the schemas of CycloneDX and by SPDX's own reader, and the
// licence. The Debian package is in suites/package, the container in suites/container.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { binary, scratch, stateDir, top } from '../../lib/env.ts';
import { pythonEnvironment } from '../../lib/python.ts';
import { must, type Case, type World } from './world.ts';

const suite = path.join(top, 'tests/suites/package');

/** FOLDER has NAME.spdx.json and NAME.cdx.json, both sound, and both name these packages. */
function sound(folder: string, name: string, ...purls: string[]): void {
	must([path.join(pythonEnvironment('sbom', path.join(suite, 'sbom.txt')), 'python'), '-B', path.join(suite, 'check-sbom'), folder, name, ...purls]);
}
/** The document is about the package itself. */
function about(folder: string, name: string, purl: string): void {
	assert.equal((JSON.parse(fs.readFileSync(path.join(folder, `${name}.cdx.json`), 'utf8')) as { metadata: { component: { purl: string } } }).metadata.component.purl, purl);
}
function licensed(file: string): void {
	assert.match(fs.readFileSync(file, 'utf8'), /Apache License\s+Version 2\.0/);
}
function unzip(file: string): string {
	const folder = scratch('unzipped');
	must(['python3', '-m', 'zipfile', '-e', file, folder]);
	return folder;
}
function untar(file: string): string {
	const folder = scratch('untarred');
	must(['tar', '-C', folder, '-xf', file]);
	return folder;
}
const PROGRAM = ['pkg:npm/zod@', 'pkg:deb/debian/libsodium-dev@', 'pkg:deb/debian/jansson@'];

export function materialCases(w: World, tree: string): Case[] {
	const cases: Case[] = [
		{
			name: 'the wheels have bills of materials of the bridge, and the licence',
			async run() {
				const wheels = fs.readdirSync(w.wheels).filter((n) => n.endsWith('.whl'));
				assert.equal(wheels.length, 2);
				for (const n of wheels) {
					const info = path.join(unzip(path.join(w.wheels, n)), `caisson_mcp-${w.version}.dist-info`);
					sound(path.join(info, 'sboms'), 'caisson-mcp');
					about(path.join(info, 'sboms'), 'caisson-mcp', `pkg:pypi/caisson-mcp@${w.version}`);
					licensed(path.join(info, 'licenses/LICENSE'));
				}
			},
		},
		{
			name: 'the npm packages have bills of materials of the bridge, and the licence',
			async run() {
				const at = path.join(untar(path.join(w.archives, `caisson-mcp-${w.version}.tgz`)), 'package');
				sound(path.join(at, 'licences'), 'caisson-mcp');
				about(path.join(at, 'licences'), 'caisson-mcp', `pkg:npm/caisson-mcp@${w.version}`);
				licensed(path.join(at, 'LICENSE'));
				licensed(path.join(untar(path.join(w.archives, `caisson-linux-x64-${w.version}.tgz`)), 'package/LICENSE'));
			},
		},
		{
			name: 'the MCPB bundle has bills of materials, and the licence',
			async run() {
				const out = scratch('listings');
				must([path.join(top, 'packaging/listings/build'), '--out', out]);
				const at = unzip(path.join(out, `caisson-mcp-${w.version}.mcpb`));
				sound(path.join(at, 'licences'), 'caisson-mcp');
				about(path.join(at, 'licences'), 'caisson-mcp', `pkg:npm/caisson-mcp@${w.version}`);
				licensed(path.join(at, 'LICENSE'));
			},
		},
		{
			name: '(slow) an image for a registry has bills of materials that refer to it, and the licences of its packages',
			async run() {
				const out = scratch('images'), layout = path.join(out, 'base'), found = scratch('found');
				must([path.join(top, 'packaging/release/images'), '--images', path.join(stateDir(), 'images'), '--out', out, '--program', binary, 'base']);
				const read = (digest: string): Buffer => {
					const body = fs.readFileSync(path.join(layout, 'blobs/sha256', digest.slice(7)));
					assert.equal(`sha256:${createHash('sha256').update(body).digest('hex')}`, digest);
					return body;
				};
				type Entry = { mediaType: string; digest: string; size: number; artifactType?: string; annotations: Record<string, string> };
				const { manifests } = JSON.parse(fs.readFileSync(path.join(layout, 'index.json'), 'utf8')) as { manifests: Entry[] };
				const [image, ...others] = manifests;
				assert.deepEqual(others.map((m) => m.artifactType), ['application/spdx+json', 'application/vnd.cyclonedx+json']);
				for (const [i, kind] of ['spdx', 'cdx'].entries()) {
					const m = JSON.parse(read(others[i]!.digest).toString()) as { artifactType: string; subject: object; layers: Entry[] };
					assert.equal(others[i]!.annotations['org.opencontainers.image.ref.name'], `${image!.digest.replace(':', '-')}.${kind}`);
					assert.deepEqual(m.subject, { mediaType: image!.mediaType, digest: image!.digest, size: image!.size });
					assert.deepEqual([m.artifactType, m.layers.length, m.layers[0]!.mediaType], [others[i]!.artifactType, 1, others[i]!.artifactType]);
					fs.writeFileSync(path.join(found, `base.${kind}.json`), read(m.layers[0]!.digest));
				}
				sound(found, 'base', 'pkg:deb/debian/libc6@');
				const names = new Set((JSON.parse(read(image!.digest).toString()) as { layers: Entry[] }).layers.flatMap((l) =>
					must(['sh', '-c', 'zstd -dc "$1" | tar -t', 'sh', path.join(layout, 'blobs/sha256', l.digest.slice(7))]).split('\n')));
				const bill = JSON.parse(fs.readFileSync(path.join(found, 'base.cdx.json'), 'utf8')) as { components: { purl: string; name: string }[] };
				const debs = bill.components.filter((c) => c.purl.startsWith('pkg:deb/'));
				assert.ok(debs.length > 50);
				const lacks = debs.map((c) => `usr/share/doc/${c.name}`).filter((d) => !names.has(`${d}/copyright`) && !names.has(d));
				assert.deepEqual(lacks, [], 'without a copyright file, or a link to another package\'s');
			},
		},
	];
	// The program of build/ is installed without these documents.
	return w.portable ? [...cases, {
		name: 'the portable program has bills of materials and licences wherever it is packed',
		async run() {
			const info = path.join(unzip(path.join(w.wheels, fs.readdirSync(w.wheels).find((n) => n.endsWith('x86_64.whl'))!)), `caisson_mcp-${w.version}.dist-info`);
			const npm = path.join(untar(path.join(w.archives, `caisson-linux-x64-${w.version}.tgz`)), 'package/licences');
			for (const [bills, texts] of [[path.join(tree, 'share/doc/caisson'), path.join(tree, 'share/doc/caisson')], [path.join(info, 'sboms'), path.join(info, 'licenses')], [npm, npm]] as const) {
				sound(bills, 'caisson', ...PROGRAM);
				licensed(path.join(texts, 'LICENSE'));
				assert.match(fs.readFileSync(path.join(texts, 'THIRD-PARTY'), 'utf8'), /GNU LESSER GENERAL PUBLIC LICENSE/);
			}
		},
	}] : cases;
}
