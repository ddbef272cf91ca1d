// SPDX-License-Identifier: Apache-2.0
// A server whose state folder is a small file system of its own, in a mount namespace of its own, which the test can fill. Root only.

import * as fs from 'node:fs';
import * as path from 'node:path';
import { spawnSync } from 'node:child_process';
import { binary, freePort, imagesDir, scratch } from './env.ts';
import { start, type Program } from './process.ts';
import { until } from './wait.ts';

const MOUNT = 'mount -t tmpfs -o "$SMALL_DISK_OPTIONS" none "$SANDBOX_STATE_DIR" && ln -s "$SMALL_DISK_IMAGES" "$SANDBOX_STATE_DIR/images" && exec "$@"';

export class SmallDisk {
	readonly state = scratch('small');
	program!: Program;
	base = '';

	/** OPTIONS of tmpfs: size, nr_inodes. */
	async serve(options: string, env: Record<string, string> = {}): Promise<void> {
		const port = await freePort();
		this.base = `http://127.0.0.1:${port}`;
		this.program = start(['--mount', '--propagation', 'private', '--', 'sh', '-c', MOUNT, 'sh', binary, 'serve', '--listen', `127.0.0.1:${port}`, '--profile', 'full'], {
			program: 'unshare',
			env: {
				SANDBOX_STATE_DIR: this.state, SMALL_DISK_OPTIONS: `mode=755,${options}`, SMALL_DISK_IMAGES: imagesDir, SANDBOX_HTTP_PORT: 'off', SANDBOX_POOL: '0', ...env,
			},
		});
		await until('the server', async () => {
			if (this.program.child.exitCode !== null || this.program.child.signalCode !== null)
				throw new Error(`serve ended with ${this.program.child.exitCode}: ${this.program.stderr}`);
			return (await fetch(`${this.base}/healthz`).catch(() => undefined))?.ok;
		}, 30_000);
	}
	/** A file of the state folder as the server sees it. */
	file(name: string): string {
		return path.join('/proc', String(this.program.pid), 'root', this.state, name);
	}
	/** Takes all the bytes that are left. */
	fill(): void {
		const { bavail, bsize } = fs.statfsSync(this.file('.'));
		const file = this.file('fill');
		spawnSync('fallocate', ['-l', String(bavail * bsize), file]);
		const fd = fs.openSync(file, 'a');
		try {
			for (;;)
				fs.writeSync(fd, Buffer.alloc(4096));
		} catch (e) {
			if ((e as NodeJS.ErrnoException).code !== 'ENOSPC')
				throw e;
		} finally {
			fs.closeSync(fd);
		}
	}
	/** Takes all the inodes that are left. */
	fillInodes(): void {
		fs.mkdirSync(this.file('fill'));
		try {
			for (let i = 0; ; i++)
				fs.closeSync(fs.openSync(this.file(`fill/${i}`), 'w'));
		} catch (e) {
			if ((e as NodeJS.ErrnoException).code !== 'ENOSPC')
				throw e;
		}
	}
	free(): void {
		fs.rmSync(this.file('fill'), { recursive: true });
	}
	async end(): Promise<void> {
		await this.program.end();
	}
}
