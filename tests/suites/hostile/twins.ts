// SPDX-License-Identifier: Apache-2.0
// A case that cannot fail proves nothing. Here every program that judges itself runs once more without the walls: as root of a
// bare user namespace, in the same image, with the host's /dev and a whole /proc, no filter, no Landlock, no limits.
// There at least one of its attempts must be reported BROKEN. Run by `tests/run hostile --twins`.

import * as fs from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';
import { spawn } from 'node:child_process';
import { imagesDir } from '../../lib/env.ts';
import type { Case, Outside } from './case.ts';
import { programOf } from './judge.ts';

/** What a host has and the image has not, where the root file system of a sandbox is the wall. */
const hostHas: Record<string, string> = {
	'45a': `python3 -c 'import os, socket; os.makedirs("/run", exist_ok=True); s = socket.socket(socket.AF_UNIX); s.bind("/run/docker.sock"); s.listen(); s.accept()' & while [ ! -S /run/docker.sock ]; do sleep 0.05; done`,
};

const setUp = `
set -e
mount --make-rprivate /
T=$0
mount -t tmpfs x $T
mkdir $T/u $T/w $T/m
mount -t overlay -o lowerdir=$1,upperdir=$T/u,workdir=$T/w,userxattr ov $T/m
mount --rbind /dev $T/m/dev
mount --rbind /sys $T/m/sys
mount -t proc p $T/m/proc
mount -t tmpfs -o mode=1777 x $T/m/tmp
mkdir -p $T/m/mnt/data
cat >$T/m/tmp/case.py
ip link set lo up 2>/dev/null || :
cp "$2"/* $T/m/mnt/data/ 2>/dev/null || :
cd $T/m/mnt/data
exec chroot $T/m sh -c 'cd /mnt/data; eval "$0"; export HOME=/tmp PATH=/usr/bin:/bin HOSTILE_SECRET=hostile-canary SANDBOX_X=1; ulimit -c unlimited 2>/dev/null; echo typed | python3 /tmp/case.py' "$3"
`;

export interface TwinRow {
	id: string;
	outcome: 'passed' | 'failed';
	why: string;
}

/** Puts what the case uploads into the folder. */
async function prepare(c: Case, folder: string): Promise<void> {
	const upload = async (name: string, content: string | Buffer): Promise<void> => fs.writeFileSync(path.join(folder, name), content);
	await c.before?.({ session: { upload }, id: 'twin' } as unknown as Outside);
}

/** Everything that the program wrote; it has 20 seconds. */
function output(argv: string[], input: string): Promise<{ stdout: string; stderr: string }> {
	return new Promise((resolve, reject) => {
		const child = spawn('unshare', argv, { timeout: 20_000, killSignal: 'SIGKILL' });
		const said = { stdout: '', stderr: '' };
		for (const stream of ['stdout', 'stderr'] as const)
			child[stream].setEncoding('utf8').on('data', (text: string) => (said[stream] = (said[stream] + text).slice(0, 1 << 24)));
		child.on('error', reject).on('close', () => resolve(said));
		child.stdin.on('error', () => {}).end(input); // it may end without having read it
	});
}

export async function runTwin(c: Case, image: string): Promise<TwinRow> {
	const code = programOf(c.code).replaceAll('@MARK@', 'twin').replaceAll('@STATE@', path.dirname(imagesDir));
	const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'caisson-twin-'));
	const uploads = fs.mkdtempSync(path.join(os.tmpdir(), 'caisson-twin-'));
	try {
		await prepare(c, uploads);
		const argv = ['--user', '--map-root-user', '--mount', '--pid', '--fork', '--kill-child', '--net', '--ipc', '--uts',
			'sh', '-c', setUp, dir, path.join(imagesDir, image, 'root'), uploads, hostHas[c.id] ?? ':'];
		const r = await output(argv, code);
		const broken = r.stdout.split('\n').filter((l) => l.startsWith('BROKEN'));
		if (broken.length > 0)
			return { id: c.id, outcome: 'passed', why: `${broken.length} attempts worked without the walls` };
		return { id: c.id, outcome: 'failed', why: `held without the walls too: ${(r.stdout + r.stderr).slice(-500)}` };
	} finally {
		fs.rmSync(dir, { recursive: true, force: true });
		fs.rmSync(uploads, { recursive: true, force: true });
	}
}
