// SPDX-License-Identifier: Apache-2.0
// Wheels that lie. An installation that fails leaves the packages as they were, and no code of a package runs where packages are managed.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { facts, open, type Json, type Session } from '../lib/session.ts';
import { Index, wheel, wheelName, zip, type Member } from '../lib/wheel.ts';

const install = async (s: Session, packages: string, session_id: string): Promise<Json> =>
	facts(await s.raw('sandbox_install_packages', { packages, session_id }));
const uninstall = async (s: Session, packages: string, session_id: string): Promise<Json> =>
	facts(await s.raw('sandbox_uninstall_packages', { packages, session_id }));
const shell = async (s: Session, command: string, session_id: string): Promise<string> =>
	facts(await s.raw('sandbox_run_shell', { command, session_id })).stdout as string;
const names = async (s: Session, session_id: string): Promise<string[]> =>
	(await s.call('sandbox_list_packages', { session_id })).installed.map((p: Json) => `${p.name}==${p.version}`);
/** Every file, link and folder of the environment, with what it holds. */
const tree = (s: Session, session_id: string): Promise<string> =>
	shell(s, 'cd /app/.venv && find . -printf "%p %y %l %m\\n" | sort && find . -type f -print0 | sort -z | xargs -0 sha256sum', session_id);

const good = (name: string, version = '1.0', code = 'who = 1\n'): { file: string; body: Buffer } => ({ file: wheelName(name, version), body: wheel(name, version, code) });
/** The members that every wheel of NAME has, with a RECORD of one's own. */
const bare = (name: string, record: string | undefined, more: Member[] = []): Buffer => zip([
	{ name: `${name}.py`, text: 'x = 1\n' },
	{ name: `${name}-1.0.dist-info/METADATA`, text: `Metadata-Version: 2.1\nName: ${name}\nVersion: 1.0\n` },
	...(record === undefined ? [] : [{ name: `${name}-1.0.dist-info/RECORD`, text: record }]), ...more]);

/** Two members of the directory point at the same bytes. */
function overlapping(name: string): Buffer {
	const all = wheel(name, '1.0', '', { more: [{ name: 'za', text: 'a'.repeat(1000) }, { name: 'zb', text: 'a'.repeat(1000) }] });
	const entries = new Map<string, number>();
	for (let at = all.indexOf('PK\x01\x02', 0, 'latin1'); at >= 0; at = all.indexOf('PK\x01\x02', at + 4, 'latin1'))
		entries.set(all.toString('latin1', at + 46, at + 46 + all.readUInt16LE(at + 28)), at);
	all.writeUInt32LE(all.readUInt32LE(entries.get('za')! + 42), entries.get('zb')! + 42);
	return all;
}

/** 24 MiB of zeros that say of themselves that they are 10 bytes. */
function understated(name: string): Buffer {
	const size = 24 << 20;
	const all = wheel(name, '1.0', '', { more: [{ name: 'zeros', text: Buffer.alloc(size) }] });
	const said = Buffer.alloc(4);
	said.writeUInt32LE(size);
	for (let at = all.indexOf(said); at >= 0; at = all.indexOf(said, at + 4))
		all.writeUInt32LE(10, at);
	return all;
}

const data = (name: string, path: string): Member => ({ name: `${name}-1.0.data/data/${path}`, text: 'x' });
const bads: [string, (name: string) => Buffer, RegExp][] = [
	['an absolute name', (n) => wheel(n, '1.0', '', { more: [{ name: '/mnt/data/evil', text: 'x' }] }), /holds the path/],
	['a name with ..', (n) => wheel(n, '1.0', '', { more: [{ name: 'a/../../evil', text: 'x' }] }), /holds the path/],
	['data outside', (n) => wheel(n, '1.0', '', { more: [data(n, '../../evil')] }), /holds the path/],
	['a name of two lines', (n) => wheel(n, '1.0', '', { more: [{ name: 'new\nkept.py,,', text: 'x' }] }), /holds the path/],
	['a control character', (n) => wheel(n, '1.0', '', { more: [{ name: 'red\u001b[31m.py', text: 'x' }] }), /holds the path/],
	['a name twice', (n) => wheel(n, '1.0', '', { more: [{ name: `${n}.py`, text: 'y' }] }), /twice/],
	['a name of 300 bytes', (n) => wheel(n, '1.0', '', { more: [{ name: 'n'.repeat(300), text: 'x' }] }), /too long/],
	['a file that is a folder, too', (n) => wheel(n, '1.0', '', { more: [{ name: 'a', text: 'x' }, { name: 'a/b', text: 'x' }] }), /./],
	['a file for the folder bin', (n) => wheel(n, '1.0', '', { more: [data(n, 'bin')] }), /name of the folder 'bin'/],
	['a file for the folder of packages', (n) => wheel(n, '1.0', '', { more: [{ name: 'kept-1.0.dist-info', text: 'x' }] }), /./],
	['a folder for a file of another', (n) => wheel(n, '1.0', '', { more: [{ name: 'kept.py/x', text: 'x' }] }), /./],
	['a link of the environment', (n) => wheel(n, '1.0', '', { more: [data(n, 'lib64')] }), /holds '/],
	['the interpreter', (n) => wheel(n, '1.0', '', { more: [data(n, 'bin/python3')] }), /holds '/],
	['the configuration of the environment', (n) => wheel(n, '1.0', '', { more: [data(n, 'pyvenv.cfg')] }), /holds '/],
	['the folder of the installer', (n) => wheel(n, '1.0', '', { more: [data(n, '.new/old/0')] }), /holds '/],
	['no RECORD', (n) => bare(n, undefined), /no RECORD/],
	['a RECORD of other bytes', (n) => bare(n, `${n}.py,sha256=AAAA,4\n`), /is not what the wheel says/],
	['sizes that are too small', understated, /damaged/],
	['members that overlap', overlapping, /damaged/],
	['60,000 members', (n) => wheel(n, '1.0', '', { more: Array.from({ length: 60_000 }, (_, i) => ({ name: `d/${i}`, text: '' })) }), /./],
	['a name that is not UTF-8', (n) => {
		const all = wheel(n, '1.0', '', { more: [{ name: 'evil-name.py', text: 'x' }] });
		for (let at = all.indexOf('evil-name'); at >= 0; at = all.indexOf('evil-name', at + 1))
			all[at + 4] = 0xff;
		return all;
	}, /./],
	['no archive', () => Buffer.from('no archive'), /./],
	['a part of one', (n) => wheel(n, '1.0', '').subarray(0, 200), /./],
];

describe('hostile wheels', () => {
	const index = new Index();
	let s: Session;
	const nameOf = (i: number): string => `bad${i}`;

	before(async () => {
		index.add('kept', good('kept'), { file: wheelName('kept', '2.0'), body: wheel('kept', '2.0', 'who = 2\n', { more: [{ name: 'kept-2.0.data/data/bin', text: 'x' }] }) });
		for (const [i, [, make]] of bads.entries())
			index.add(nameOf(i), { file: wheelName(nameOf(i), '1.0'), body: make(nameOf(i)) });
		// Its code ends every Python that starts where it may write, and says so where a person would look.
		index.add('starter', { file: wheelName('starter', '1.0'), body: wheel('starter', '1.0', '', { more: [
			{ name: 'starter.pth', text: 'import os; exec("try:\\n open(\'/app/.venv/ran\', \'a\').write(\'x\')\\n os._exit(7)\\nexcept OSError: open(\'/mnt/data/tried\', \'a\')")\n' }] }) });
		index.add('odd', { file: wheelName('odd', '1.0'), body: bare('odd', '../../../../../../mnt/data/mine,,\n/mnt/data/mine,,\n../../../bin/python3,,\n', [
			{ name: 'odd-1.0.dist-info/INSTALLER', text: 'mine' }, { name: 'odd-1.0.dist-info/REQUESTED', text: 'mine' }, { name: 'odd-1.0.data/scripts/odd-setuid', text: '#!python\nprint(1)\n', mode: 0o106777 },
			{ name: 'odd-fifo', text: '', mode: 0o010644 }, { name: 'Odd.py', text: '' }, { name: 'caf\u00e9.py', text: '' }, { name: 'cafe\u0301.py', text: '' },
			{ name: 'odd-1.0.dist-info/entry_points.txt', text: '[console_scripts]\ngood = odd:main\n$(touch /mnt/data/pwn) = odd:main\n;reboot = odd:main\npython3 = odd:main\n../../evil = odd:main\nx = os;system:main\ny = odd:main;import os\n-rf = odd:main [a]\n' }]) });
		index.add('crowd', { file: wheelName('crowd', '1.0'), body: wheel('crowd', '1.0', '', { more: [
			...Array.from({ length: 2500 }, (_, i) => ({ name: `a${i}x-1.egg-info`, text: '' })),
			...Array.from({ length: 6500 }, (_, i) => ({ name: `caf\u00e9${'\u00e9'.repeat(115)}${i}-1.egg-info`, text: '' })),
			...['-1', 'a b-1', 'a-\u00e9'].map((name) => ({ name: `${name}.egg-info`, text: '' }))] }) });
		await index.open();
		s = await open('stdio', { profile: 'all', env: { SANDBOX_PIP_INDEX_URL: index.url, SANDBOX_INSTALL_MAX_BYTES: '4m' } });
		assert.equal((await install(s, 'kept==1.0', 'w')).status, 'success');
	});
	after(async () => {
		await s.end();
		index.close();
	});

	it('a file of the tree is seen', async () => { // the twin of what follows: a wheel that is good changes it
		const first = await tree(s, 'w');
		index.add('plain', good('plain'));
		assert.equal((await install(s, 'plain', 'w')).status, 'success');
		assert.notEqual(await tree(s, 'w'), first);
		assert.equal((await uninstall(s, 'plain', 'w')).status, 'success');
		assert.equal(await tree(s, 'w'), first);
	});
	for (const [i, [what, , why]] of bads.entries())
		it(`${what}: refused, and nothing has changed`, async () => {
			const first = await tree(s, 'w');
			const r = await install(s, nameOf(i), 'w');
			assert.equal(r.error, 'package_failed', JSON.stringify(r));
			assert.match(r.message, why);
			assert.doesNotMatch(r.message, /[\0-\x09\x0b-\x1f\x7f-\x9f]/);
			assert.equal(await tree(s, 'w'), first);
			assert.deepEqual(await names(s, 'w'), ['kept==1.0']);
		});
	it('a new version that fails leaves the old one as it was', async () => {
		const first = await tree(s, 'w');
		const r = await install(s, 'kept==2.0', 'w');
		assert.match(r.message, /name of the folder 'bin'/);
		assert.equal(await tree(s, 'w'), first);
		assert.equal(await shell(s, 'python3 -c "import kept; print(kept.who)"', 'w'), '1\n');
	});
	it('code that starts with Python runs in runs, never where packages are managed', async () => {
		assert.equal((await install(s, 'starter', 'p')).status, 'success');
		assert.deepEqual(await names(s, 'p'), ['starter==1.0']);
		assert.equal((await install(s, 'kept==1.0', 'p')).status, 'success');
		assert.deepEqual(await names(s, 'p'), ['kept==1.0', 'starter==1.0']);
		assert.equal((await uninstall(s, 'starter', 'p')).status, 'success');
		assert.deepEqual(await names(s, 'p'), ['kept==1.0']);
		assert.equal(await shell(s, 'ls /app/.venv', 'p'), 'bin\nlib\nlib64\npyvenv.cfg\n', 'it has never run there');
		// The twin: the same code does start with every Python of a run.
		assert.equal((await install(s, 'starter', 'p')).status, 'success');
		assert.equal(await shell(s, 'python3 -c 1; ls /mnt/data', 'p'), 'tried\n');
	});
	it('(slow) a wheel that pretends to be 9,000 packages hides none, and none of them is a name that cannot be told', async () => {
		const r = await install(s, 'kept==1.0 crowd', 'c');
		assert.equal(r.status, 'success', JSON.stringify(r));
		const listed = await names(s, 'c');
		assert.deepEqual(listed.filter((n) => !/^a\d+x/.test(n)), listed.length < 2000 ? ['crowd==1.0', 'kept==1.0'] : []);
		assert.ok(listed.length > 1000 && listed.length <= 2000, `${listed.length} are listed`);
		index.add('plain', good('plain'));
		assert.equal((await install(s, 'plain', 'c')).status, 'success', 'the next installation works');
		assert.equal((await uninstall(s, 'crowd', 'c')).status, 'success');
		assert.deepEqual(await names(s, 'c'), ['kept==1.0', 'plain==1.0']);
	});
	it('what a wheel says of modes, owners and files of others has no effect', async () => {
		await shell(s, 'echo mine > /mnt/data/mine', 'o');
		const r = await install(s, 'odd', 'o');
		assert.equal(r.status, 'success', JSON.stringify(r));
		assert.equal(await shell(s, 'cd /app/.venv && ls bin && find . ! -type d ! -type f ! -type l && find . -perm /7000 && cat lib/python3*/site-packages/odd-1.0.dist-info/INSTALLER', 'o'),
			`-rf\ngood\nodd-setuid\npython\npython3\n${await shell(s, 'basename $(readlink -f /usr/bin/python3)', 'o')}caisson\n`);
		assert.equal((await uninstall(s, 'odd', 'o')).status, 'success');
		assert.equal(await shell(s, 'cat /mnt/data/mine; cd /app/.venv && ls bin; find lib -type f', 'o'), `mine\npython\npython3\n${await shell(s, 'basename $(readlink -f /usr/bin/python3)', 'o')}`);
	});
});
