// SPDX-License-Identifier: Apache-2.0
// TypeScript becomes JavaScript by whatever the image has: Node itself, where it was built with that, else esbuild.
// Types are removed, not checked.
'use strict';

const fs = require('fs');
const Module = require('module');
const { spawnSync } = require('child_process');

const OUTPUT_MAX = 64 << 20;
const NO_WAY = 'This image cannot run TypeScript: its Node was built without it, and it has no esbuild. Use an image that has one of them, ' +
	'or run JavaScript.';
const INLINE = /\n\/\/# sourceMappingURL=data:application\/json[^,]*;base64,([\w+/=]*)\s*$/;

function mapped(text) {
	const found = INLINE.exec(text);
	if (!found)
		return { text, map: null };
	return { text: text.slice(0, found.index + 1), map: new Module.SourceMap(JSON.parse(Buffer.from(found[1], 'base64').toString())) };
}

function byNode(code, fail) {
	try {
		return { text: Module.stripTypeScriptTypes(code), map: null };  // every place stays
	} catch (e) {
		if (e.code !== 'ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX')
			return fail({ message: e.message.split('\n')[0] });
	}
	return mapped(Module.stripTypeScriptTypes(code, { mode: 'transform', sourceMap: true, sourceUrl: 'cell' }));
}

function byEsbuild(code, fail) {
	const options = ['--loader=tsx', '--jsx=transform', '--target=esnext', '--sourcemap=inline', '--sources-content=false', '--color=false',
		'--log-limit=1', '--tsconfig-raw={"compilerOptions":{"verbatimModuleSyntax":true}}'];
	let done = spawnSync('esbuild', options, { input: code, maxBuffer: OUTPUT_MAX });
	if (done.status)  // <T>value and <T>(x) => x are no JSX
		done = spawnSync('esbuild', ['--loader=ts', ...options.slice(1)], { input: code, maxBuffer: OUTPUT_MAX });
	if (done.error)
		throw done.error.code === 'ENOENT' ? Object.assign(new Error(NO_WAY), { name: 'TypeScriptMissing' }) : done.error;
	if (done.status === 0)
		return mapped(done.stdout.toString());
	const said = done.stderr.toString();
	const [, message] = /\[ERROR\] (.*)/.exec(said) ?? [null, said.slice(0, 1000)];
	const at = /<stdin>:(\d+):(\d+):/.exec(said);
	return fail({ message, loc: at && { line: +at[1], column: +at[2] } });
}

// Returns {text, map}. FAIL gets {message, loc} of a SyntaxError, and throws.
function typescript(code, fail) {
	return process.features.typescript ? byNode(code, fail) : byEsbuild(code, fail);
}

// Files of the user may be TypeScript, too: require('./a.ts'), import('./a.ts').
function hookImports() {
	if (process.features.typescript || !Module.registerHooks)
		return;
	Module.registerHooks({
		load(url, context, next) {
			if (!/^file:.*\.[mc]?tsx?(?:\?.*)?$/.test(url))
				return next(url, context);
			const { text } = typescript(fs.readFileSync(new URL(url), 'utf8'), (e) => {
				throw new SyntaxError(`${url}${e.loc ? `:${e.loc.line}` : ''}: ${e.message}`);
			});
			return { format: /\.cts/.test(url) ? 'commonjs' : 'module', source: text, shortCircuit: true };
		},
	});
}

module.exports = { typescript, hookImports };
