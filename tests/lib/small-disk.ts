// SPDX-License-Identifier: Apache-2.0
// A server whose state folder is a small file system of its own, in a mount namespace of its own, which the test can fill. Only root can mount it; the server is the user's of the mode.

import * as fs from 'node:fs';
import * as path from 'node:path';
import { spawnSync } from 'node:child_process';
import { asProductUser, binary, freePort, imagesDir, productUid, scratch } from './env.ts';
import { start, type Program } from './process.ts';
import { until } from './wait.ts';

const MEMORY = 'mount -t tmpfs -o "$SMALL_DISK_OPTIONS" none "$SMALL_DISK"';
/** A real file system, in a file beside the state folder: only there workspaces of sessions are on disk. */
const DISK = '{ [ -e "$SMALL_DISK.img" ] || { truncate -s "$SMALL_DISK_OPTIONS" "$SMALL_DISK.img" && mke2fs -qF -t ext4 -m0 "$SMALL_DISK.img"; }; } && ' +
	'mount -o loop "$SMALL_DISK.img" "$SMALL_DISK" && chmod 755 "$SMALL_DISK"';
const SERVE = ' && chown "$SMALL_DISK_OWNER" "$SMALL_DISK" && ln -sfn "$SMALL_DISK_IMAGES" "$SMALL_DISK/images" && exec "$@"';

export class SmallDisk {
	readonly state = scratch('small');
	program!: Program;
	base = '';
	private last: [string, string, Record<string, string>] = ['', '', {}];

	/** OPTIONS of tmpfs: size, nr_inodes. */
	async serve(options: string, env: Record<string, string> = {}): Promise<void> {
		await this.begin(MEMORY, `mode=755,${options}`, env);
	}
	/** The state folder is an ext4 of SIZE, such as 600m. */
	async serveOnDisk(size: string, env: Record<string, string> = {}): Promise<void> {
		await this.begin(DISK, size, env);
	}
	private async begin(mount: string, options: string, env: Record<string, string>): Promise<void> {
		this.last = [mount, options, env];
		const port = await freePort();
		this.base = `http://127.0.0.1:${port}`;
		const server = asProductUser([binary, 'serve', '--listen', `127.0.0.1:${port}`, '--profile', 'all']);
		this.program = start(['--mount', '--propagation', 'private', '--', 'sh', '-c', mount + SERVE, 'sh', ...server], {
			program: 'unshare',
			asCaller: true,
			env: {
				SMALL_DISK_OWNER: String(productUid),
				SANDBOX_STATE_DIR: this.state, SMALL_DISK: this.state, SMALL_DISK_OPTIONS: options, SMALL_DISK_IMAGES: imagesDir, SANDBOX_HTTP_PORT: 'off', SANDBOX_POOL: '0', ...env,
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
	/** Takes all the bytes that are left, but for LEAVE. */
	fill(leave = 0): void {
		const { bavail, bsize } = fs.statfsSync(this.file('.'));
		const file = this.file('fill');
		spawnSync('fallocate', ['-l', String(bavail * bsize - leave), file]);
		if (leave > 0)
			return;
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
	/** Kills the server and all its processes with SIGKILL, and starts another on the same disk. */
	async again(): Promise<void> {
		const all = [this.program.pid];
		for (let i = 0; i < all.length; i++) // children of children, too
			for (const task of fs.readdirSync(`/proc/${all[i]}/task`))
				all.push(...fs.readFileSync(`/proc/${all[i]}/task/${task}/children`, 'utf8').split(' ').filter(Boolean).map(Number));
		for (const pid of all)
			try {
				process.kill(pid, 'SIGKILL');
			} catch (e) { // it has ended meanwhile
				if ((e as NodeJS.ErrnoException).code !== 'ESRCH')
					throw e;
			}
		await until('all processes to end', () => all.every((pid) => !fs.existsSync(`/proc/${pid}`)), 30_000);
		await until('the disk to be free', () => spawnSync('losetup', ['-j', `${this.state}.img`]).stdout.length === 0, 30_000);
		await this.begin(...this.last);
	}
	async end(): Promise<void> {
		await this.program.end();
		fs.rmSync(`${this.state}.img`, { force: true });
	}
}
