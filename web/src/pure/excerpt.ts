// SPDX-License-Identifier: Apache-2.0
// The part of a long text that a search found.

const LINES = 6; // of an excerpt
const CHARS = 1200;

/** Without the escape sequences of terminals. */
export function plainText(s: string): string {
	// eslint-disable-next-line no-control-regex
	return s.replace(/\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])/g, '').replace(/[^\n]*\r(?!\n)/g, '');
}

/** The lines around the first place of WORDS in TEXT, as [part, found] pairs. Case does not matter. */
export function excerpt(text: string, words: string): { parts: [string, boolean][]; before: boolean; after: boolean } {
	const at = Math.max(0, text.toLowerCase().indexOf(words.toLowerCase()));
	const start = Math.max(lineStart(text, at, 2), at - CHARS / 2);
	let end = start;
	for (let i = 0; i < LINES && end < text.length; i++) {
		const next = text.indexOf('\n', end + 1);
		end = next < 0 ? text.length : next;
	}
	end = Math.min(end, start + CHARS);
	return { parts: marked(text.slice(start, end).replace(/^\n+|\n+$/g, ''), words), before: start > 0, after: end < text.length };
}

/** Where the line begins that is N lines above that of AT. */
function lineStart(text: string, at: number, n: number): number {
	let p = at;
	for (let i = 0; i <= n && p > 0; i++)
		p = text.lastIndexOf('\n', p - 1);
	return p < 0 ? 0 : p;
}

function marked(text: string, words: string): [string, boolean][] {
	const out: [string, boolean][] = [];
	const low = text.toLowerCase();
	const needle = words.toLowerCase();
	let p = 0;
	for (let hit = needle ? low.indexOf(needle) : -1; hit >= 0 && low.length === text.length; hit = low.indexOf(needle, p)) {
		if (hit > p)
			out.push([text.slice(p, hit), false]);
		out.push([text.slice(hit, hit + needle.length), true]);
		p = hit + needle.length;
	}
	if (p < text.length)
		out.push([text.slice(p), false]);
	return out;
}
