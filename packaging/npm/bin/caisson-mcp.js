#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
// On Linux: the program of the platform package, as `caisson stdio` if no verb is named. Everywhere else, and where a server is named:
// a bridge.
'use strict';

const { bridgeIsWanted, find } = require('../lib/places.js');
const { main, replace, tell } = require('../lib/bridge.js');

/** musl has no glibc, and Node knows. */
function hasGlibc() {
	process.report.excludeNetwork = true; // else it asks for the name of each peer
	return Boolean(process.report.getReport().header.glibcVersionRuntime);
}

/** The path of Caisson, or undefined: there is no build for this machine. */
function program() {
	const { optionalDependencies, version } = require('../package.json');
	const name = `@caisson/linux-${process.arch}`;
	if (process.platform !== 'linux' || !(name in optionalDependencies))
		return undefined;
	try {
		return require.resolve(`${name}/bin/caisson`);
	} catch {
		if (!hasGlibc())
			return undefined;
	}
	tell(`the package ${name} is missing: npm leaves it out with --omit=optional, and with a lock file of another platform. Install it: npm install ${name}@${version}`);
	return process.exit(1);
}

/** This process becomes the program where Node can do that; it would only pass signals on. */
function start(path, args) {
	if (process.execve) {
		process.emitWarning = () => {}; // "execve is an experimental feature"
		try {
			process.execve(path, ['caisson', ...args], process.env);
		} catch {
			// Started as a child it says what is wrong.
		}
	}
	replace([path, ...args]);
}

const args = process.argv.slice(2);
const path = bridgeIsWanted(args) ? undefined : program();
if (path) {
	const isVerb = args.length > 0 && (!args[0].startsWith('-') || ['-h', '--help', '-V', '--version'].includes(args[0]));
	start(path, isVerb ? args : ['stdio', ...args]);
} else {
	void main(find(args));
}
