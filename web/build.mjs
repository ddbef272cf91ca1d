// SPDX-License-Identifier: Apache-2.0
// Bundles the page into the folder DEST: index.html, favicon.svg, licenses.txt and assets/NAME-HASH.{js,css}. Called by ./build.

import { spawnSync } from 'node:child_process';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { gzipSync } from 'node:zlib';
import * as esbuild from 'esbuild';

const FIRST_VIEW_MAX = 300 * 1024; // bytes, gzip: what a browser loads before the home page shows

const args = process.argv.slice(2);
const watch = args[0] === '--watch';
const dest = path.resolve(args[watch ? 1 : 0] ?? fail('usage: build [--watch] DEST'));

function fail(why) {
	console.error(why);
	process.exit(1);
}

/** lucide icons named in src/parts/icons.txt become one module of path data: `import { icons } from 'virtual:icons'`. */
const icons = {
	name: 'icons',
	setup(build) {
		const list = path.resolve('src/parts/icons.txt');
		build.onResolve({ filter: /^virtual:icons$/ }, () => ({ path: 'icons', namespace: 'icons' }));
		build.onLoad({ filter: /.*/, namespace: 'icons' }, () => {
			const names = fs.readFileSync(list, 'utf8').split('\n').filter((l) => l && !l.startsWith('#'));
			const table = Object.fromEntries(names.map((name) => [name, shapes(fs.readFileSync(`node_modules/lucide-static/icons/${name}.svg`, 'utf8'))]));
			return { contents: `export const icons = ${JSON.stringify(table)};`, watchFiles: [list] };
		});
	},
};

/** The elements of an icon as [tag, attributes] pairs; the page makes nodes of them, never markup. */
function shapes(svg) {
	const inner = svg.slice(svg.indexOf('>', svg.indexOf('<svg')) + 1);
	return [...inner.matchAll(/<(path|circle|rect|line|polyline|polygon|ellipse) ([^>]*?)\/>/g)].map(([, tag, attributes]) =>
		[tag, Object.fromEntries([...attributes.matchAll(/([\w-]+)="([^"]*)"/g)].map(([, k, v]) => [k, v]))]);
}

/** xterm.js writes its rules into <style> elements, which the page's Content-Security-Policy blocks. They go through src/parts/xterm-style.ts instead. */
const xtermStyles = {
	name: 'xterm-styles',
	setup(build) {
		build.onLoad({ filter: /xterm\/lib\/xterm\.mjs$/ }, ({ path: file }) => {
			let count = 0;
			const text = fs.readFileSync(file, 'utf8').replace(/[\w.]+\.createElement\("style"\)/g, () => (count++, 'makeStyle()'));
			if (count !== 3)
				return { errors: [{ text: `xterm.js makes ${count} <style> elements, not 3: look at src/parts/xterm-style.ts again` }] };
			return { contents: `import { makeStyle } from ${JSON.stringify(path.resolve('src/parts/xterm-style.ts'))};\n${text}` };
		});
	},
};

const options = {
	entryPoints: { app: 'src/main.tsx' },
	bundle: true,
	splitting: true,
	format: 'esm',
	target: ['es2022', 'firefox115', 'safari16.4'],
	jsx: 'automatic',
	jsxImportSource: 'preact',
	minify: !watch,
	metafile: true,
	sourcemap: watch ? 'linked' : false,
	legalComments: 'none',
	outdir: path.join(dest, 'assets'),
	entryNames: '[name]-[hash]',
	chunkNames: '[name]-[hash]',
	assetNames: '[name]-[hash]',
	logLevel: 'warning',
	plugins: [icons, xtermStyles, { name: 'write', setup: (build) => build.onEnd((r) => r.errors.length === 0 ? finish(r.metafile) : undefined) }],
};

/** Outputs with the path of their file in DEST. */
function outputs(meta) {
	return Object.entries(meta.outputs).filter(([file]) => !file.endsWith('.map')).map(([file, o]) => ({ file: path.resolve(file), ...o }));
}

function finish(meta) {
	const all = outputs(meta);
	const entry = all.find((o) => o.entryPoint === 'src/main.tsx');
	const name = (file) => path.posix.join('assets', path.basename(file));
	const first = firstView(all, entry);
	const head = [
		entry.cssBundle && `<link rel="stylesheet" href="${name(entry.cssBundle)}">`,
		...first.filter((f) => f !== entry.file && f.endsWith('.js')).map((f) => `<link rel="modulepreload" href="${name(f)}">`),
		`<script type="module" src="${name(entry.file)}"></script>`,
	].filter(Boolean).join('\n');
	fs.writeFileSync(path.join(dest, 'index.html'), fs.readFileSync('src/index.html', 'utf8').replace('<!-- assets -->', head));
	fs.copyFileSync('src/favicon.svg', path.join(dest, 'favicon.svg'));
	const bytes = first.reduce((n, f) => n + gzipSync(fs.readFileSync(f), { level: 9 }).length, 0);
	console.log(`first view ${(bytes / 1024).toFixed(1)} KB compressed, of at most ${FIRST_VIEW_MAX / 1024}; ${all.length} files`);
	if (!watch && bytes > FIRST_VIEW_MAX)
		fail('the first view is too large: load what it does not need with import()');
}

/** The entry, its style sheet and everything that they import statically. */
function firstView(all, entry) {
	const seen = new Set();
	const walk = (file) => {
		const full = path.resolve(file);
		if (seen.has(full))
			return;
		seen.add(full);
		all.find((o) => o.file === full)?.imports.filter((i) => i.kind === 'import-statement' && !i.external).forEach((i) => walk(i.path));
	};
	walk(entry.file);
	if (entry.cssBundle)
		seen.add(path.resolve(entry.cssBundle));
	return [...seen];
}

/** Licence texts of the packages whose code is in the bundle, and of the icons. */
function licences(metas) {
	const used = new Set(['lucide-static']);
	for (const input of metas.flatMap((m) => Object.keys(m.inputs))) {
		const m = /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(input);
		if (m)
			used.add(m[1]);
	}
	return [...used].sort().map((name) => {
		const dir = path.join('node_modules', name);
		const info = JSON.parse(fs.readFileSync(path.join(dir, 'package.json'), 'utf8'));
		const file = fs.readdirSync(dir).find((f) => /^licen[cs]e/i.test(f));
		if (!file || !info.license)
			fail(`${name} has no licence file`);
		return `${name} ${info.version}, ${info.license}\n\n${fs.readFileSync(path.join(dir, file), 'utf8').trim()}\n`;
	}).join(`\n${'-'.repeat(72)}\n\n`);
}

fs.rmSync(path.join(dest, 'assets'), { recursive: true, force: true });
fs.mkdirSync(path.join(dest, 'assets'), { recursive: true });
if (watch) {
	await (await esbuild.context(options)).watch();
} else {
	const types = spawnSync(process.execPath, ['node_modules/typescript/bin/tsc', '-p', '.'], { stdio: 'inherit' });
	if (types.status !== 0)
		fail('the types of the page are wrong');
	const page = await esbuild.build(options);
	const views = await (await import('./apps/bundle.mjs')).bundleViews(esbuild, dest);
	fs.writeFileSync(path.join(dest, 'licenses.txt'), licences([page.metafile, ...(views ? [views] : [])]));
}
