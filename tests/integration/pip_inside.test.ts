// SPDX-License-Identifier: Apache-2.0
// `pip install` typed in a sandbox: where the network permits the index it is asked, whatever it is; where it does not, or the index
// needs credentials, which are the server's alone, the tool is named at once.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { facts, using, type Json, type Session } from '../lib/session.ts';
import { Index, wheel, wheelName } from '../lib/wheel.ts';

const READER = 'librarian-4711';
const PASSWORD = 'open-sesame-4711';
const TOKEN = 'x7Kp2mQ9vL4tR8wZ';
const HINT = /the package index cannot be asked from this sandbox\. Packages are installed by the tool sandbox_install_packages\.$/m;

async function shell(s: Session, command: string, session_id = 'one'): Promise<Json> {
	return s.call('sandbox_run_shell', { command, session_id });
}

async function python(s: Session, code: string, session_id = 'one'): Promise<string> {
	const r = facts(await s.raw('sandbox_run_python', { code, session_id }));
	return `${r.stdout}${r.stderr}`;
}

describe('pip in a sandbox', () => {
	const index = new Index();
	const env = (more: Record<string, string>): Record<string, string> => ({ SANDBOX_PIP_INDEX_URL: index.url, SANDBOX_MAX_SESSIONS: '10', ...more });

	before(async () => {
		await index.open();
		index.add('alpha', { file: wheelName('alpha', '1.0'), body: wheel('alpha', '1.0', 'import beta\nwho = "alpha of the index"\ndef main():\n    print("alpha runs")', { requires: ['beta'], scripts: 'alpha-run = alpha:main' }) });
		index.add('beta', { file: wheelName('beta', '1.5'), body: wheel('beta', '1.5', 'who = "beta"') });
		index.add('gamma', { file: wheelName('gamma', '1.0'), body: wheel('gamma', '1.0', 'who = "gamma"') });
	});
	after(() => index.close());

	it('(slow) asks the configured index where the network permits it, on loopback too', () => using('stdio', { profile: 'full', env: env({ SANDBOX_NETWORK: 'packages' }) }, async (s) => {
		const r = await shell(s, 'pip install alpha && ~/.local/bin/alpha-run && pip uninstall -q -y alpha && python3 -m pip install -q alpha');
		assert.equal(r.exit_code, 0, `${r.stdout}${r.stderr}`);
		assert.match(r.stdout, /Successfully installed alpha-1\.0 beta-1\.5\nalpha runs\n/);
		assert.equal(await python(s, 'import alpha, beta; print(alpha.who, beta.who)'), 'alpha of the index beta\n');
		assert.match(await python(s, 'import alpha', 'another'), /ModuleNotFoundError/);
		const code = 'import subprocess, sys\nsubprocess.run([sys.executable, "-m", "pip", "install", "-q", "beta"], check=True)\nprint(subprocess.run([sys.executable, "-c", "import beta; print(beta.who)"], capture_output=True, text=True).stdout)';
		assert.equal(await python(s, code, 'another'), 'beta\n\n');
		assert.equal((await s.call('sandbox_install_packages', { packages: 'alpha', session_id: 'another' })).status, 'success');
		const both = await shell(s, 'python3 -m pip install -q gamma && python3 -c "import alpha, gamma; print(alpha.who, gamma.who)"', 'another');
		assert.equal(both.stdout, 'alpha of the index gamma\n', both.stderr);
	}));

	for (const stateful of [false, true])
		it(`a wheel of the workspace can be imported at once, without a network, ${stateful ? 'in a session' : 'in a run'}`, () => using('stdio', { profile: 'full', env: env({}) }, async (s) => {
			const file = wheelName('delta', '1.0');
			await s.call('sandbox_write_file', { session_id: 'one', path: file, content_base64: Buffer.from(wheel('delta', '1.0', 'who = "delta"')).toString('base64') });
			const run = async (code: string): Promise<Json> => facts(await s.raw('sandbox_run_python', { code, session_id: 'one', stateful }));
			const r = await run(`try:\n    import delta\nexcept ImportError as e: print(e)\nimport os\nos.system("pip install -q ./${file}")\nimport delta\nprint(delta.who)`);
			assert.deepEqual([r.exit_code, r.stdout], [0, "No module named 'delta'\ndelta\n"], JSON.stringify(r));
			assert.equal((await run('import importlib.metadata, delta; print(delta.who, importlib.metadata.version("delta"))')).stdout, 'delta 1.0\n');
		}));

	it('(slow) uv installs for every run as well, and into the virtual environment where there is one', () => using('stdio', { profile: 'full', env: env({ SANDBOX_NETWORK: 'packages' }) }, async (s) => {
		const r = await shell(s, 'uv pip install alpha && ~/.local/bin/alpha-run && uv pip freeze && uv pip uninstall alpha && uv pip list');
		assert.equal(r.exit_code, 0, `${r.stdout}${r.stderr}`);
		assert.match(r.stdout, /^alpha runs\nalpha==1\.0\nbeta==1\.5\nPackage +Version\n[- ]+\nbeta +1\.5\n$/);
		assert.equal(await python(s, 'import beta; print(beta.who)'), 'beta\n');
		assert.equal((await shell(s, 'pip uninstall -q -y beta && mkdir -p deep && uv venv -q .venv && cd deep && uv pip install -q alpha && ../.venv/bin/python -c "import alpha; print(alpha.who)"')).stdout, 'alpha of the index\n');
		assert.match(await python(s, 'import alpha'), /ModuleNotFoundError/);
		const elsewhere = await shell(s, 'cd /tmp && uv pip install -q --target there gamma && ls there; uv pip install -q --system gamma', 'another');
		assert.match(elsewhere.stdout, /^gamma\.py$/m);
		assert.notEqual(elsewhere.exit_code, 0); // as it was asked for, and nobody may write there
	}));

	it('(slow) names the tool of the profile, and no other', async () => {
		const rows = { full: 'Packages are installed by the tool sandbox_install_packages.', both: 'Packages are installed by the tool install_package_in_sandbox.', code: 'No tool of this server installs packages.' };
		for (const [profile, sentence] of Object.entries(rows))
			await using('stdio', { profile, env: env({}) }, async (s) => {
				const code = 'import subprocess, sys\nfor words in (["pip"], [sys.executable, "-m", "pip"], ["uv", "pip"]):\n    print(subprocess.run([*words, "install", "gamma"], capture_output=True, text=True).stderr, end="")';
				const r = await s.run(code, 'one');
				assert.equal(r.stdout, ['pip', 'pip', 'uv'].map((who) => `${who}: this sandbox has no network. ${sentence}\n`).join(''), r.stderr);
			});
	});

	it('without a network, what is there already is a success', () => using('stdio', { profile: 'full', env: env({}) }, async (s) => {
		const satisfied = ["pip install 'numpy>=1.2' PyYAML", 'python3 -m pip install -U --user pip', 'pip3 install -r needs.txt', 'uv pip install opencv-python', 'pip install json', 'pip install pandas>=1.0', 'pip install "seaborn>=0.1,<9"; pip install numpy>=1 pip>=2'];
		const commands = satisfied.map((c) => `{ ${c}; } 2>&1 | grep -cv "^Requirement already satisfied: \\|^Whether"`).join('; ');
		const r = await shell(s, `printf 'pip  # a comment\n\nnumpy>=1.0 ; python_version > "3"\nno-such-thing; python_version < "3"\n' >needs.txt; ${commands}; ls`);
		assert.equal(r.stdout, `${'0\n'.repeat(satisfied.length)}needs.txt\n`, r.stderr);
		const shown = await shell(s, 'pip install pandas>=1.0; echo $?; pip install numpy nosuch; echo $?; pip install "numpy>=99"; echo $?; pip freeze | head -1');
		assert.match(shown.stdout, /^0\n1\n1\n[^\n]*==[^\n]*\n$/);
		assert.match(shown.stderr, /^Requirement already satisfied: pandas>=1\.0 in .*\npip: nosuch: this sandbox has no network\. .*\npip: this sandbox has no network\. .*\nnumpy \d\S* is installed here, and does not satisfy >=99\.\n$/);
	}));

	it('without a network, says what is the matter', () => using('stdio', { profile: 'full', env: env({}) }, async (s) => {
		const rows: [string, number, RegExp][] = [
			['pip install -r nosuch.txt', 1, /^pip: there is no file nosuch\.txt in \/mnt\/data\.\n$/],
			['pip install packaging==1.0 numpy', 1, /^pip: packaging==1\.0: this sandbox has no network\. .*\npackaging \d\S* is installed here, and does not satisfy ==1\.0\.\n$/],
			['pip install packaging >= 1.0 && test ! -e =', 0, /^Requirement already satisfied: packaging>=1\.0 in .*\n$/],
			['pip install packaging == 1.0', 1, /does not satisfy ==1\.0\.\n$/],
			['pip index versions numpy', 1, /^pip: this sandbox has no network\. Packages are installed by the tool sandbox_install_packages\.\n$/],
			['python3 -m venv env && env/bin/pip install numpy 2>&1 | grep -c Retrying', 1, /^0\n$/],
			['clear; tput sgr0; echo "$TERM"', 0, /^dumb\n$/],
		];
		for (const [command, status, said] of rows) {
			const r = await shell(s, command);
			assert.equal(r.exit_code, status, command);
			assert.match(`${r.stdout}${r.stderr}`, said, command);
		}
		assert.match(await python(s, '!pip install packaging >= 1.0\npip install packaging >=1 numpy\n!pip install -q packaging && [ $? == 0 ] && echo yes\nimport os\nprint("=" in os.listdir())'),
			/^Requirement already satisfied: packaging>=1\.0 in .*\n(?:.*\n)*yes\nFalse\n$/);
	}));

	it('(slow) without a network, wheels of the workspace can be installed and removed', () => using('stdio', { profile: 'full', env: env({}) }, async (s) => {
		const file = wheelName('gamma', '1.0');
		const lone = wheelName('alpha', '1.0');
		const write = (name: string, body: Buffer): string => `import base64; open("${name}", "wb").write(base64.b64decode("${body.toString('base64')}"))`;
		await python(s, `${write(file, wheel('gamma', '1.0', 'who = "gamma"'))}\n${write(lone, wheel('alpha', '1.0', '', { requires: ['beta'] }))}`);
		const r = await shell(s, `pip install -q ./${file} && python3 -c "import gamma; print(gamma.who)" && pip uninstall -q -y gamma && pip install -q gamma --find-links . && pip uninstall -q -y gamma && uv pip install -q ${file} && pip install gamma`);
		assert.match(r.stdout, /^gamma\nRequirement already satisfied: gamma in .* \(1\.0\)\n$/, r.stderr);
		assert.equal(await python(s, 'import gamma; print(gamma.who)'), 'gamma\n');
		assert.match((await shell(s, `pip install ${lone}`)).stderr, /pip: the files of this sandbox are not enough: this sandbox has no network\. .*\n$/);
	}));

	it('reads pages of the index and packages, and nothing else of its host', () => using('stdio', { profile: 'full', env: env({ SANDBOX_NETWORK: 'packages' }) }, async (s) => {
		const root = index.url.replace(/\/simple\/?$/, '');
		const code = `
import http.client, os, urllib.parse, urllib.request
proxy = urllib.parse.urlsplit(os.environ["HTTP_PROXY"])
def ask(path, method="GET", body=None, headers={}):
    c = http.client.HTTPConnection(proxy.hostname, proxy.port, timeout=10)
    c.request(method, "${root}" + path, body, headers)
    r = c.getresponse()
    text = r.read()
    return r.getheader("X-Egress-Reason") or r.status
print(ask("/simple/alpha/"), ask("/"), ask("/admin"), ask("/simple/alpha/?q=stolen"), ask("/simple/../admin"), ask("/simple/alpha/", "POST", "x"), ask("/simple/alpha/", "GET", "stolen"))
print(ask("/simple/alpha/", headers={"X-Stolen": "data", "Cookie": "a=b", "User-Agent": "mine"}))`;
		assert.equal(await python(s, code), '200 path_not_allowed path_not_allowed path_not_allowed path_not_allowed method_not_allowed body_not_allowed\n200\n');
		assert.deepEqual([index.lastHeaders['x-stolen'], index.lastHeaders.cookie, index.lastHeaders['user-agent']], [undefined, undefined, 'mine']);
	}));

	it('(slow) never sees the credentials of an index, and names the tool instead', async () => {
		index.credentials = `${READER}:${PASSWORD}`;
		try {
			await using('stdio', { profile: 'full', env: env({ SANDBOX_PIP_INDEX_URL: index.url.replace('//', `//${READER}:${PASSWORD}@`), SANDBOX_NETWORK: 'packages' }) }, async (s) => {
				const installed = await s.call('sandbox_install_packages', { packages: 'alpha', session_id: 'one' });
				assert.equal(installed.status, 'success', JSON.stringify(installed));
				const seen = await shell(s, 'env; cat /proc/*/environ | tr "\\0" "\\n"; pip config list; grep -rs librarian- /etc/pip.conf ~ /app /usr/local /tmp');
				const run = await python(s, 'import os, sys; print(dict(os.environ), sys.argv, open("/proc/self/environ").read())');
				assert.match(seen.stdout, /HTTPS_PROXY=/);
				for (const text of [seen.stdout, seen.stderr, run, JSON.stringify(installed)]) {
					assert.ok(!text.includes(PASSWORD) && !text.includes(READER), text);
					assert.doesNotMatch(text, /INDEX_URL=/);
				}
				for (const command of ['pip install gamma', 'cd / && python3 -m pip -q download gamma']) {
					const r = await shell(s, command);
					assert.deepEqual([r.exit_code, HINT.test(r.stderr)], [1, true], `${command}: ${JSON.stringify(r)}`);
				}
				const own = await shell(s, `pip install --no-index gamma; python3 -m pip install --no-input --index-url=${index.url} gamma`);
				assert.deepEqual([own.exit_code, own.stderr.split('No matching distribution').length, HINT.test(own.stderr)], [1, 3, false], JSON.stringify(own));
			});
		} finally {
			index.credentials = undefined;
		}
	});

	it('(slow) never sees a token in the path of an index, but by the word of whoever names it', async () => {
		const url = index.url.replace('/simple', `/${TOKEN}/simple`);
		const settings = env({ SANDBOX_PIP_INDEX_URL: url, SANDBOX_NETWORK: 'packages' });
		index.token = TOKEN;
		try {
			await using('stdio', { profile: 'full', env: settings }, async (s) => {
				assert.equal((await s.call('sandbox_install_packages', { packages: 'alpha', session_id: 'one' })).status, 'success');
				const seen = await shell(s, 'env; cat /proc/*/environ | tr "\\0" "\\n"; pip config list');
				assert.match(seen.stdout, /HTTPS_PROXY=/);
				assert.ok(!seen.stdout.includes(TOKEN) && !seen.stdout.includes('INDEX_URL='), seen.stdout);
				const r = await shell(s, 'pip install gamma');
				assert.deepEqual([r.exit_code, HINT.test(r.stderr)], [1, true], JSON.stringify(r));
			});
			await using('stdio', { profile: 'full', env: { ...settings, SANDBOX_PIP_TELL_INDEX: 'on' } }, async (s) => {
				const r = await shell(s, 'pip install -q gamma && echo "$PIP_INDEX_URL"');
				assert.equal(r.stdout, `${url}\n`, r.stderr);
			});
		} finally {
			index.token = undefined;
		}
	});

	it('is told of no index that the network does not permit', async () => {
		const rows: [Record<string, string>, RegExp][] = [
			[{ SANDBOX_NETWORK: 'none' }, /^PIP_RETRIES=0\n\n$/],
			[{ SANDBOX_NETWORK: 'allowlist', SANDBOX_NETWORK_ALLOW: 'a.invalid.example' }, /^CAISSON_PACKAGES=tool\n.*\nPIP_PROXY=.*\nPIP_RETRIES=5\n\n$/s],
			[{ SANDBOX_NETWORK: 'allowlist', SANDBOX_NETWORK_ALLOW: 'pypi.org files.pythonhosted.org' }, /^PIP_BREAK.*\nPIP_PROXY=[^\n]*\nPIP_RETRIES=5\n\n$/s],
			[{ SANDBOX_NETWORK: 'open', SANDBOX_NETWORK_OPEN: 'on' }, /^PIP_BREAK.*\nPIP_PROXY=[^\n]*\nPIP_RETRIES=5\n\n$/s],
		];
		for (const [settings, want] of rows)
			await using('stdio', { profile: 'full', env: env(settings) }, async (s) => {
				const r = await shell(s, 'env | grep -E "^(CAISSON|PIP_|UV_)" | sort; echo');
				assert.match(r.stdout, want, JSON.stringify(settings));
				assert.doesNotMatch(r.stdout, /INDEX/);
			});
	});
});
