// SPDX-License-Identifier: Apache-2.0
// A case that cannot fail proves nothing. Here every program that judges itself runs once more without the walls: as root of a
// bare user namespace, in the same image, with the host's /dev and a whole /proc, no filter, no Landlock, no limits.
// There at least one of its attempts must be reported BROKEN. Run by `tests/hostile/run --twins`.

import * as fs from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';
import { spawnSync } from 'node:child_process';
import { imagesDir, top } from '../lib/env.ts';
import type { Case } from './case.ts';

/** Why a program finds everything shut even without our walls. */
const shutAnyway: Record<string, string> = {
	'20f': 'without the filter the calls would be carried out; the sweep compares with the table by itself',
	'36a': 'tests send nothing beyond loopback',
	'36b': 'tests send nothing beyond loopback',
	'37a': 'tests send nothing beyond loopback',
	'37b': 'tests send nothing beyond loopback',
	'44b': 'tests send nothing beyond loopback',
	'22b': 'tests send nothing beyond loopback',
	'2f': 'RLIMIT_MEMLOCK holds for everybody without capabilities',
	'11b': 'the archive comes by an upload',
	'11c': 'the archive comes by an upload',
	'25c': 'RLIMIT_SIGPENDING holds for everybody',
	'2g': 'fs.pipe-user-pages-soft holds for everybody',
	'32f': 'RLIMIT_SIGPENDING holds for everybody',
	'28c': 'the twin has no terminal either',
	'45a': 'which of them are there is the host\'s affair',
	'23b': 'the kernel bounds descriptors in flight for everybody without capabilities',
	'25a': 'judged by the run that follows',
	'28b': 'the twin has no terminal either',
	'31a': 'judged by what another sandbox sees',
	'31b': 'judged by what another sandbox sees',
	'32e': 'how long it takes depends on what the host has to write',
	'32b': 'fs.inotify.max_user_instances holds for everybody',
	'35a': 'judged by the run that follows',
};

/** Namespaces that the twin shares with the host, where they are the wall. */
const shares: Record<string, string[]> = {
	'23a': ['--net'],
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
cd $T/m/mnt/data
exec chroot $T/m sh -c 'cd /mnt/data; export HOME=/tmp PATH=/usr/bin:/bin HOSTILE_SECRET=hostile-canary SANDBOX_X=1; ulimit -c unlimited 2>/dev/null; echo typed | python3 /tmp/case.py'
`;

export interface TwinRow {
	id: string;
	outcome: 'passed' | 'failed' | 'skipped';
	why: string;
}

export function runTwin(c: Case, image: string): TwinRow {
	if ((c.held ?? 1) === 0)
		return { id: c.id, outcome: 'skipped', why: 'judged from outside alone' };
	if (shutAnyway[c.id])
		return { id: c.id, outcome: 'skipped', why: shutAnyway[c.id]! };
	const prelude = fs.readFileSync(path.join(top, 'tests/hostile/prelude.py'), 'utf8');
	const code = (prelude + c.code + '\n').replaceAll('@MARK@', 'twin').replaceAll('@STATE@', path.dirname(imagesDir));
	const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'caisson-twin-'));
	try {
		const spaces = ['--net', '--ipc', '--uts'].filter((n) => !shares[c.id]?.includes(n));
		const r = spawnSync('unshare', ['--user', '--map-root-user', '--mount', '--pid', '--fork', '--kill-child', ...spaces, 'sh', '-c', setUp, dir, path.join(imagesDir, image, 'root')], { input: code, encoding: 'utf8', timeout: 20_000, killSignal: 'SIGKILL', maxBuffer: 1 << 24 });
		const broken = r.stdout.split('\n').filter((l) => l.startsWith('BROKEN'));
		if (broken.length > 0)
			return { id: c.id, outcome: 'passed', why: `${broken.length} attempts worked without the walls` };
		return { id: c.id, outcome: 'failed', why: `held without the walls too: ${(r.stdout + r.stderr).slice(-500)}` };
	} finally {
		fs.rmSync(dir, { recursive: true, force: true });
	}
}
