// SPDX-License-Identifier: Apache-2.0
// Makes the views for MCP clients: each one file of HTML that needs nothing else.

import { readFileSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const here = path.dirname(fileURLToPath(import.meta.url));

/** Writes DEST/apps/results.html. ESBUILD: the module. Gives back what is in it, for the licences. */
export async function bundleViews(esbuild, dest) {
	const script = await esbuild.build({
		entryPoints: [path.join(here, 'results.tsx')], bundle: true, minify: true, write: false, format: 'esm', target: 'es2022', legalComments: 'none',
		jsx: 'automatic', jsxImportSource: 'preact', define: { 'process.env.NODE_ENV': '"production"' }, logLevel: 'warning', metafile: true,
	});
	const css = await esbuild.transform(readFileSync(path.join(here, 'results.css'), 'utf8'), { loader: 'css', minify: true });
	// "</script" inside a string of the program would end the element.
	const js = script.outputFiles[0].text.replaceAll('</script', '<\\/script').replaceAll('<!--', '<\\!--');
	const html = `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1"><title>Caisson</title><style>${css.code}</style></head><body><main></main><script type="module">${js}</script></body></html>\n`;
	await mkdir(path.join(dest, 'apps'), { recursive: true });
	await writeFile(path.join(dest, 'apps', 'results.html'), html);
	return script.metafile;
}
