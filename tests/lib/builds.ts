// SPDX-License-Identifier: Apache-2.0
// Image builds without a network: a script stands for mmdebstrap. It says what that says, waits where a case wants it, and sends
// the files of the image `base`.

import * as fs from 'node:fs';
import * as path from 'node:path';
import { execFileSync } from 'node:child_process';
import { imagesDir, mode, productUid, scratch } from './env.ts';

/** Lines of the build of `loud`. */
export const NOISE = 700;

/** A state folder with the image `base`, and definitions: `mini` is built, `slow` waits, `broken` fails, `loud` has long output, `wrong` is no definition. */
export class Builds {
	readonly state = scratch('state');
	readonly store = path.join(this.state, 'images');
	private readonly defs = scratch('defs');
	private readonly tools = scratch('tools');
	private readonly gate = path.join(this.tools, 'gate');

	constructor() {
		const base = fs.realpathSync(path.join(imagesDir, 'base'));
		fs.mkdirSync(this.store);
		execFileSync('cp', ['-a', '--reflink=auto', base, path.join(this.store, 'base')]);
		fs.chownSync(this.store, productUid, productUid);
		for (const [name, packages] of [['mini', 'python3'], ['slow', 'python3 slow'], ['broken', 'python3 broken'], ['loud', 'python3 loud']])
			fs.writeFileSync(path.join(this.defs, `${name}.conf`), `description = the image ${name}\nsuite = forky\npackages = ${packages}\n`, { mode: 0o644 });
		fs.writeFileSync(path.join(this.defs, 'wrong.conf'), 'no definition\n', { mode: 0o644 });
		fs.writeFileSync(path.join(this.tools, 'apt-get'), '#!/bin/sh\necho "http://127.0.0.1:9/debian Debian Packages"\n', { mode: 0o755 });
		execFileSync('mkfifo', [this.gate]);
		const tar = path.join(this.tools, 'base.tar');
		execFileSync('tar', ['-C', path.join(base, 'root'), '--exclude=./opt/caisson/image.json', '-cf', tar, '.']);
		fs.writeFileSync(this.script, [
			'#!/bin/sh',
			'echo "0 upgraded, 4 newly installed, 0 to remove" >&2',
			'echo "Get:1 http://127.0.0.1:9/debian forky/main amd64 libc6 amd64 2.42 [2 kB]" >&2',
			'case "$*" in',
			`*python3,slow*) read -r go <'${this.gate}' ;;`,
			'*python3,broken*) echo "E: Unable to locate package broken" >&2; exit 25 ;;',
			// Longer than one read of the reader, so that each line is a step of its own.
			`*python3,loud*) i=0; while [ $i -lt ${NOISE} ]; do printf 'Unpacking a %8300s\\ncaisson: a %8300s\\n' x x >&2; i=$((i + 2)); done ;;`,
			'esac',
			'echo "I: creating tarball..." >&2',
			`exec cat '${tar}'`,
			'',
		].join('\n'), { mode: 0o755 });
	}

	private get script(): string {
		return path.join(this.tools, 'mmdebstrap');
	}

	/** For the server. */
	get env(): Record<string, string> {
		return { SANDBOX_STATE_DIR: this.state, SANDBOX_IMAGE: 'base', SANDBOX_IMAGES: '*', SANDBOX_IMAGE_DEFS: this.defs, PATH: `${this.tools}:${process.env.PATH!}` };
	}

	/** The command that starts the server: a build looks for programs in the folders of the system alone, so the script takes the place of mmdebstrap there. */
	get under(): string[] | undefined {
		return mode === 'root' ? ['unshare', '--mount', '--propagation', 'private', 'sh', '-c', `mount --bind '${this.script}' /usr/bin/mmdebstrap && exec "$@"`, 'sh'] : undefined;
	}

	/** Lets the build of `slow` go on, which waits for it. */
	goOn(): void {
		fs.writeFileSync(this.gate, 'go\n');
	}

	/** What the store holds of builds that did not end. */
	left(): string[] {
		return fs.readdirSync(this.store).filter((n) => n.startsWith('.') && fs.lstatSync(path.join(this.store, n)).isDirectory());
	}
}
