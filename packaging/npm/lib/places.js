// SPDX-License-Identifier: Apache-2.0
// Where the bridge finds Caisson: at a URL, in WSL, or in a container of Docker.
'use strict';

const fs = require('node:fs');
const path = require('node:path');
const { spawnSync } = require('node:child_process');

const PROBE_MS = 60_000; // WSL may have to start its machine first
const OPTIONS = { '--url': 'CAISSON_URL', '--distribution': 'CAISSON_DISTRIBUTION', '--container': 'CAISSON_CONTAINER' };
const USAGE = `usage: caisson-mcp [--url URL | --distribution NAME | --container NAME] [OPTION OF caisson stdio]...
  --url URL             the /mcp address of a server (CAISSON_URL); its key is read from CAISSON_KEY
  --distribution NAME   of WSL, with Caisson in it (CAISSON_DISTRIBUTION)
  --container NAME      of Docker, with Caisson in it (CAISSON_CONTAINER; default: caisson-caisson-1)
On Linux, where the package has the program, \`caisson-mcp\` is \`caisson stdio\` unless --bridge or --url comes first.`;

const nameOf = (arg) => (arg ?? '').split('=')[0];

function bridgeIsWanted(args) {
	return nameOf(args[0]) === '--bridge' || nameOf(args[0]) in OPTIONS || Boolean(process.env.CAISSON_URL) || process.env.CAISSON_BRIDGE === '1';
}

function usage(problem) {
	process.stderr.write(problem ? `caisson-mcp: ${problem}\n${USAGE}\n` : `${USAGE}\n`);
	process.exit(problem ? 2 : 0);
}

/** The options that are for the bridge, by name, and the rest. */
function taken(args) {
	const found = Object.fromEntries(Object.entries(OPTIONS).map(([name, variable]) => [name, process.env[variable] ?? '']));
	const rest = [...args];
	while (rest.length > 0 && (nameOf(rest[0]) in OPTIONS || ['--bridge', '--help', '-h'].includes(nameOf(rest[0])))) {
		const arg = rest.shift(), name = nameOf(arg);
		if (name === '--help' || name === '-h')
			usage();
		if (name === '--bridge')
			continue;
		if (arg === name && rest.length === 0)
			usage(`${name} needs a value`);
		found[name] = arg === name ? rest.shift() : arg.slice(name.length + 1);
	}
	return { found, rest };
}

/** URL with the path /mcp if it has none. */
function address(text) {
	let url;
	try {
		url = new URL(text);
	} catch {
		url = undefined;
	}
	if (!url || !['http:', 'https:'].includes(url.protocol) || url.username || url.password)
		return usage(`${text} is no address of a server: http://HOST:PORT/mcp`);
	url.hash = '';
	if (url.pathname === '/')
		url.pathname = '/mcp';
	return url.href;
}

function keyOfUser() {
	const key = (process.env.CAISSON_KEY ?? '').trim();
	return /^[!-~]*$/.test(key) ? key : usage('CAISSON_KEY has a character that no header can hold');
}

/** A word for sh. */
const quoted = (word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'"'"'`)}'`);

/** The path of a program in PATH, or undefined. */
function which(name) {
	const names = process.platform === 'win32' && !name.includes('.') ? [`${name}.exe`] : [name];
	for (const folder of (process.env.PATH ?? '').split(path.delimiter).filter(Boolean))
		for (const file of names.map((n) => path.join(folder, n)))
			try {
				fs.accessSync(file, fs.constants.X_OK);
				return file;
			} catch {
				// not here
			}
	return undefined;
}

function succeeds(argv, wanted = '') {
	const r = spawnSync(argv[0], argv.slice(1), { stdio: ['ignore', 'pipe', 'ignore'], timeout: PROBE_MS, windowsHide: true });
	return r.status === 0 && r.stdout.includes(wanted);
}

/** `url`, or `command`: what speaks stdio in place of the bridge; or neither, and `why`. `say` is for the person. */
function find(args) {
	const { found, rest } = taken(args);
	if (found['--url']) {
		if (rest.length > 0)
			usage(`${rest[0]} is an option of the server`);
		const url = address(found['--url']);
		const key = keyOfUser(), { protocol, hostname } = new URL(url);
		const isBare = key !== '' && protocol === 'http:' && !['127.0.0.1', 'localhost', '[::1]'].includes(hostname);
		return { key, url, say: `this is a bridge to ${url}${isBare ? ', and the key is sent without encryption' : ''}` };
	}
	const container = found['--container'] || 'caisson-caisson-1';
	const wsl = which('wsl.exe');
	if (wsl && !found['--container']) {
		const shell = [wsl, ...(found['--distribution'] ? ['--distribution', found['--distribution']] : []), '--exec', 'sh', '-lc'];
		if (succeeds([...shell, 'command -v caisson']))
			return { command: [...shell, ['exec caisson stdio', ...rest.map(quoted)].join(' ')], say: 'no URL is named (CAISSON_URL), so this is Caisson in WSL' };
	}
	const docker = which('docker');
	if (docker && succeeds([docker, 'inspect', '--format', '{{.State.Running}}', container], 'true'))
		return {
			command: [docker, 'exec', '-i', container, 'env', '-u', 'SANDBOX_API_KEY', 'caisson', 'stdio', ...rest],
			say: `no URL is named (CAISSON_URL), so this is Caisson in the container ${container}`,
		};
	const why = 'There is no Caisson for this machine: it runs on Linux with glibc 2.31 or newer. Set CAISSON_URL to the /mcp address of a server (and CAISSON_KEY to its key), '
		+ `or install Caisson in WSL, or start its container ${container} with Docker.`;
	return { say: why, why };
}

module.exports = { bridgeIsWanted, find };
