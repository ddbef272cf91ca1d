// SPDX-License-Identifier: Apache-2.0
// What the archive says of itself, and the unit for Podman.

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { createHash } from 'node:crypto';
import { spawnSync } from 'node:child_process';
import { top } from '../../lib/env.ts';
import { owned } from '../../lib/owned.ts';
import { pythonEnvironment } from '../../lib/python.ts';
import type { Json } from '../../lib/session.ts';
import type { ContainerCase } from './cases.ts';
import { folder, service } from './box.ts';

const suite = path.join(top, 'tests/suites/package');
/** Podman's generator of units; Debian has it from release 13 on. */
const quadlet = [process.env.CAISSON_TEST_QUADLET ?? '', '/usr/libexec/podman/quadlet', '/usr/lib/podman/quadlet'].find((file) => file && fs.existsSync(file));

/** The lines KEY=VALUE of a section, in their order. */
function section(text: string, name: string): [string, string][] {
	const body = text.split(/^\[/m).find((part) => part.startsWith(`${name}]`)) ?? '';
	return [...body.matchAll(/^(\w+)=(.*)$/gm)].map((m) => [m[1]!, m[2]!]);
}

export const materialCases: ContainerCase[] = [
	{
		name: 'the image has bills of materials that their readers accept, all licences, and how to start it; labels are annotations as well',
		run(w) {
			const out = owned('caisson-materials-', '/var/tmp');
			const json = (name: string): Json => JSON.parse(spawnSync('tar', ['-xOf', w.archive, name], { encoding: 'utf8' }).stdout) as Json;
			const entry = json('index.json').manifests[0];
			const manifest = json(`blobs/sha256/${entry.digest.slice(7)}`);
			const labels = json(`blobs/sha256/${manifest.config.digest.slice(7)}`).config.Labels as Record<string, string>;
			const { 'org.opencontainers.image.ref.name': tag, ...noted } = entry.annotations as Record<string, string>;
			const defined = Object.fromEntries(Object.entries(labels).filter(([n]) => n.startsWith('org.opencontainers.image.')));
			assert.deepEqual([tag, noted, manifest.annotations], [w.image, defined, defined]);
			const label = (name: string): string | undefined => labels[`org.opencontainers.image.${name}`];
			assert.equal(label('version'), fs.readFileSync(path.join(top, 'VERSION'), 'utf8').trim());
			assert.equal(label('revision'), spawnSync('git', ['-C', top, 'rev-parse', 'HEAD'], { encoding: 'utf8' }).stdout.trim());
			assert.match(label('created') ?? '', /^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
			for (const name of ['title', 'description', 'licenses', 'authors', 'vendor'])
				assert.ok(label(name), name);
			const registered = fs.readFileSync(path.join(top, 'packaging/registry-name'), 'utf8').trim();
			assert.equal(labels['io.modelcontextprotocol.server.name'], registered);
			for (const name of ['url', 'source', 'documentation'])
				assert.equal(label(name)?.split('#')[0], `https://github.com/${registered.replace('io.github.', '')}`, name);

			const layers = (manifest.layers as { digest: string }[]).map((l, i) => {
				const file = path.join(out, `layer-${i}.tgz`);
				spawnSync('sh', ['-c', 'tar -xOf "$1" "$2" >"$3"', 'sh', w.archive, `blobs/sha256/${l.digest.slice(7)}`, file]);
				return file;
			});
			for (const layer of layers) {
				const r = spawnSync('tar', ['-xzf', layer, '-C', out, '--wildcards', 'usr/share/doc/caisson/*', 'usr/share/caisson/*', 'usr/lib/caisson/images/base/base.*', 'usr/bin/caisson'],
					{ encoding: 'utf8' });
				assert.deepEqual(r.stderr.split('\n').filter((l) => l && !/Not found in archive|Exiting with failure status|Ignoring unknown extended header keyword/.test(l)), [], layer);
			}
			const python = path.join(pythonEnvironment('sbom', path.join(suite, 'sbom.txt')), 'python');
			const read = (at: string, name: string, ...purls: string[]): void => {
				const said = spawnSync(python, ['-B', path.join(suite, 'check-sbom'), path.join(out, at), name, ...purls], { encoding: 'utf8' });
				assert.equal(said.status, 0, said.stdout + said.stderr);
			};
			read('usr/share/doc/caisson', 'caisson-container', 'pkg:generic/caisson@', 'pkg:npm/preact@', ...['libsodium23', 'libc6', 'e2fsprogs', 'uidmap'].map((p) => `pkg:deb/debian/${p}@`));
			read('usr/lib/caisson/images/base', 'base', 'pkg:deb/debian/libc6@');
			// CI has built the image just now; the one of another machine may be older than this promise.
			if (process.env.CAISSON_STRICT === '1') {
				const debs = (JSON.parse(fs.readFileSync(path.join(out, 'usr/lib/caisson/images/base/base.cdx.json'), 'utf8')) as { components: { purl: string; name: string }[] }).components
					.filter((c) => c.purl.startsWith('pkg:deb/')).map((c) => `usr/lib/caisson/images/base/root/usr/share/doc/${c.name}/copyright`);
				const listed = new Set(layers.flatMap((layer) => spawnSync('tar', ['-tzf', layer], { encoding: 'utf8', maxBuffer: 1 << 28 }).stdout.split('\n')));
				assert.ok(debs.length > 50);
				assert.deepEqual(debs.filter((file) => !listed.has(file) && !listed.has(path.dirname(file))), [], 'copyright files of the image');
			}
			const texts = fs.readFileSync(path.join(out, 'usr/share/doc/caisson/THIRD-PARTY'), 'utf8');
			const bill = JSON.parse(fs.readFileSync(path.join(out, 'usr/share/doc/caisson/caisson-container.cdx.json'), 'utf8')) as { components: { group?: string; name: string; version: string }[] };
			const names = new Set(texts.split('\n'));
			assert.deepEqual(bill.components.filter((c) => c.name !== 'caisson').map((c) => `${c.group ? `${c.group}/` : ''}${c.name} ${c.version}`).filter((c) => !names.has(c)), [], 'licences');
			assert.doesNotMatch(texts, /has no text of a licence/);
			for (const name of ['seccomp.json', 'compose.yaml', 'compose.least.yaml', 'podman/caisson.container', 'podman/caisson.volume'])
				assert.deepEqual(fs.readFileSync(path.join(out, 'usr/share/caisson', path.basename(name))), fs.readFileSync(path.join(folder, name)), name);

			const statement = JSON.parse(fs.readFileSync(`${w.archive}.intoto.json`, 'utf8')) as Json;
			const digest = createHash('sha256').update(fs.readFileSync(w.archive)).digest('hex');
			assert.deepEqual(statement.subject, [{ name: path.basename(w.archive), digest: { sha256: digest } }]);
			assert.equal(statement.predicate.buildDefinition.externalParameters.target, 'container');
		},
	},
	{
		name: "the unit for Podman has the flags of compose.yaml, no more and no fewer",
		run() {
			const unit = fs.readFileSync(path.join(folder, 'podman/caisson.container'), 'utf8');
			const pairs = section(unit, 'Container'), compose = service('compose.yaml');
			const all = (key: string): string[] => pairs.filter(([k]) => k === key).map(([, v]) => v);
			const list = (key: string): string[] => compose.get(key) as string[];
			assert.deepEqual(all('AddCapability'), list('cap_add'));
			assert.deepEqual(all('DropCapability'), list('cap_drop'));
			assert.deepEqual(all('PublishPort'), list('ports'));
			assert.deepEqual(all('Tmpfs'), list('tmpfs'));
			assert.deepEqual(all('AddDevice'), list('devices'));
			assert.deepEqual(all('ReadOnly'), [compose.get('read_only')]);
			assert.deepEqual(all('Volume'), list('volumes').map((v) => v.replace('caisson-state', 'caisson.volume')));
			assert.deepEqual(section(fs.readFileSync(path.join(folder, 'podman/caisson.volume'), 'utf8'), 'Volume'), [['VolumeName', 'caisson-state']]);
			assert.deepEqual(list('security_opt'), [`seccomp=${path.basename(all('SeccompProfile')[0]!)}`, 'apparmor=unconfined', 'no-new-privileges']);
			assert.deepEqual(all('NoNewPrivileges'), ['true']);
			assert.deepEqual(all('PodmanArgs'), [`--security-opt apparmor=unconfined --device-cgroup-rule "${list('device_cgroup_rules')[0]}" --stop-timeout ${parseInt(compose.get('stop_grace_period') as string, 10)}`]);
			const rest = new Set(pairs.map(([k]) => k));
			for (const key of ['AddCapability', 'DropCapability', 'PublishPort', 'Tmpfs', 'AddDevice', 'ReadOnly', 'Volume', 'SeccompProfile', 'NoNewPrivileges', 'PodmanArgs'])
				rest.delete(key);
			assert.deepEqual([...rest].sort(), ['ContainerName', 'EnvironmentFile', 'Image', 'SecurityLabelDisable']);
		},
	},
	...quadlet ? [{
		name: "Podman's generator makes a service of it",
		run(): void {
			const r = spawnSync(quadlet, ['--dryrun'], { encoding: 'utf8', env: { PATH: '/usr/bin:/bin', QUADLET_UNIT_DIRS: path.join(folder, 'podman') } });
			assert.equal(r.status, 0, r.stderr);
			const service = r.stdout.split('---caisson.service---')[1] ?? '';
			const start = Object.fromEntries(section(service, 'Service')).ExecStart ?? '';
			for (const flag of ['--cap-drop all', '--cap-add sys_admin', '--read-only', '--tmpfs /run', '--tmpfs /tmp', '--device /dev/loop-control', '-v caisson-state:/var/lib/caisson',
				'--publish 127.0.0.1:8181:8181', '--env-file /etc/caisson/container.env', '--security-opt seccomp=/etc/caisson/seccomp.json', '--security-opt=no-new-privileges',
				'--security-opt apparmor=unconfined', '--device-cgroup-rule "b\\x207:*\\x20rmw"'])
				assert.ok(start.includes(` ${flag} `), `${flag} in ${start}`);
			assert.match(service, /^Requires=caisson-volume\.service$/m);
		},
	}] : [],
];
