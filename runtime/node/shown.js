// SPDX-License-Identifier: Apache-2.0
// What a value shows of itself besides its text, by the conventions of other notebooks: Symbol.for('Jupyter.display') of Deno, toHtml()
// and its like of tslab and IJavascript, elements and canvases of the DOM. Each method is the user's: it may throw, or never end.
'use strict';

const util = require('util');

const TEXT_MAX = 1 << 20;  // characters
const PART_MAX = 1 << 20;  // of one representation; rich.py keeps no more
const PARTS_MAX = 16;
const MIMES = {
	html: 'text/html', markdown: 'text/markdown', md: 'text/markdown', svg: 'image/svg+xml', latex: 'text/latex', json: 'application/json',
	png: 'image/png', jpeg: 'image/jpeg', gif: 'image/gif', text: 'text/plain',
};
const METHODS = [['toHtml', 'text/html'], ['_toHtml', 'text/html'], ['_toSvg', 'image/svg+xml'], ['_toPng', 'image/png'], ['_toJpeg', 'image/jpeg']];
const DISPLAY = Symbol.for('Jupyter.display');

function textOf(value) {
	try {
		return util.inspect(value, { depth: 4, breakLength: 100, maxArrayLength: 100, maxStringLength: 10000 }).slice(0, TEXT_MAX);
	} catch {
		return '[a value that cannot be shown]';
	}
}

// The parts of a bundle as texts; bytes are base64.
function dataOf(bundle) {
	const data = {};
	for (const [mime, part] of Object.entries(bundle ?? {}).slice(0, PARTS_MAX)) {
		if (part === undefined || part === null || mime === 'text/plain')
			continue;
		const text = typeof part === 'string' ? part : ArrayBuffer.isView(part) ?
			Buffer.from(part.buffer, part.byteOffset, part.byteLength).toString('base64') : JSON.stringify(part);
		if (typeof text === 'string')
			data[mime] = text.length <= PART_MAX * 4 / 3 ? text : '';
	}
	return data;
}

function own(value) {
	for (const [name, mime] of METHODS)
		if (typeof value[name] === 'function')
			return { [mime]: value[name]() };
	if (typeof value.toDataURL === 'function') {
		const found = /^data:(image\/[\w.+-]+);base64,(.*)$/s.exec(value.toDataURL());
		return found ? { [found[1]]: found[2] } : {};
	}
	if (typeof value.outerHTML === 'string' && typeof value.nodeType === 'number')
		return { [/^<svg\b/i.test(value.outerHTML) ? 'image/svg+xml' : 'text/html']: value.outerHTML };
	return {};
}

// {text, data} of VALUE, or a promise of it.
function bundleOf(value) {
	const made = (bundle) => ({ text: bundle['text/plain'] === undefined ? textOf(value) : String(bundle['text/plain']), data: dataOf(bundle) });
	if (value === null || typeof value !== 'object' && typeof value !== 'function')
		return { text: textOf(value), data: {} };
	try {
		const bundle = typeof value[DISPLAY] === 'function' ? value[DISPLAY]() : own(value);
		if (util.types.isPromise(bundle))
			return bundle.then(made, () => made({}));
		for (const mime in bundle)
			if (util.types.isPromise(bundle[mime]))
				return bundle[mime].then((part) => made({ [mime]: part }), () => made({}));
		return made(bundle ?? {});
	} catch {
		return made({});
	}
}

module.exports = { bundleOf, dataOf, textOf, MIMES };
