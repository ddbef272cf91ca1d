// SPDX-License-Identifier: Apache-2.0
// What tests of builds from Dockerfiles share: whether there is a builder, a small image to begin with, and a folder to build in.

import { execFileSync } from 'node:child_process';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { imagesDir, mode, productUid } from './env.ts';
import { image, type Image, root, tar } from './oci.ts';

export const missing: string | false = fs.existsSync('/usr/bin/buildah') ? false : 'buildah is not installed';
/** A plain user of the tests needs a range of sub-uids. */
export const noRange: string | false = mode === 'user' && !fs.readFileSync('/etc/subuid', 'utf8').split('\n').some((l) => l.startsWith(`${productUid}:`)) && 'this account has no range in /etc/subuid';

/** Steps of a root's build are another account's, which must come to its folder: not into one of `scratch`. The caller removes it. */
export function buildsFolder(): string {
	const folder = fs.mkdtempSync('/var/tmp/caisson-test-builds-');
	fs.chmodSync(folder, 0o711);
	if (process.getuid!() === 0)
		fs.chownSync(folder, productUid, productUid);
	return folder;
}

/** A shell and a few programs of the image base, as a layer. */
export function shellLayer(): Buffer {
	const at = path.join(imagesDir, 'base/root');
	const library = `usr/lib/${process.arch === 'x64' ? 'x86_64' : 'aarch64'}-linux-gnu`;
	const programs = ['sh', 'dash', 'bash', 'cat', 'ls', 'id', 'sleep', 'setsid', 'head', 'mktemp', 'chmod', 'rm', 'cp', 'mkdir', 'mkfifo', 'mknod', 'ln', 'dd', 'true'].map((n) => `usr/bin/${n}`);
	const libraries = fs.readdirSync(path.join(at, library)).filter((n) => /^(ld-linux.*|lib(c|m|tinfo|selinux|pcre2-8|acl|attr|gmp|crypto|cap)\.so.*)$/.test(n)).map((n) => `${library}/${n}`);
	const all = ['bin', 'lib', 'lib64', 'etc/passwd', 'etc/group', 'tmp', ...programs, ...libraries].filter((n) => fs.lstatSync(path.join(at, n), { throwIfNoEntry: false }));
	const loader = fs.readdirSync(path.join(at, 'usr/lib64'), { withFileTypes: true }).map((e) => `usr/lib64/${e.name}`);
	return execFileSync('tar', ['-C', at, '--owner=0', '--group=0', '-cf', '-', ...all, ...loader], { maxBuffer: 1 << 28 });
}

/** An image of that, with a python3 that nobody executes: it is fetched and imported in a moment. */
export function small(): Image {
	return image([shellLayer(), tar(root)]);
}

/** How many `sleep MARK` there are. */
export function sleepers(mark: string): number {
	return fs.readdirSync('/proc').filter((p) => /^\d+$/.test(p)).filter((pid) => {
		try {
			return fs.readFileSync(`/proc/${pid}/cmdline`, 'latin1').split('\0').slice(0, 2).join(' ') === `sleep ${mark}`;
		} catch {
			return false;
		}
	}).length;
}
