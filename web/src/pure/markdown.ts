// SPDX-License-Identifier: Apache-2.0
// Markdown as a tree of blocks: what notes and reports use, no HTML, no pictures of elsewhere. Whatever is not understood stays text.

export type Inline = string | { kind: 'strong' | 'em' | 'code' | 'del'; of: Inline[] } | { kind: 'link'; to: string; of: Inline[] };

export type Block =
	| { kind: 'head'; level: number; of: Inline[] }
	| { kind: 'text'; of: Inline[] }
	| { kind: 'code'; language: string; text: string }
	| { kind: 'list'; ordered: boolean; start: number; items: Block[][] }
	| { kind: 'quote'; of: Block[] }
	| { kind: 'table'; head: Inline[][]; rows: Inline[][][] }
	| { kind: 'rule' };

const DEPTH = 6; // of lists and quotes in each other; deeper ones are text
const SPAN = 2000; // characters between two marks of emphasis

const inlineMarks = /`([^`\n]+)`|\*\*(?=\S)([^*]{1,2000}?)\*\*|__(?=\S)([^_]{1,2000}?)__|~~(?=\S)([^~]{1,2000}?)~~|\*(?=\S)([^*\n]{1,2000}?)\*|\b_(?=\S)([^_\n]{1,2000}?)_\b|\[([^\][\n]{1,500})\]\(\s*(https?:\/\/[^\s()<>"]{1,1000})\s*\)|\\([\\`*_{}[\]()#+\-.!~|>])/g;

export function inline(text: string, depth = 0): Inline[] {
	if (depth > 3)
		return [text];
	const out: Inline[] = [];
	let at = 0;
	for (const m of text.matchAll(inlineMarks)) {
		if (m.index > at)
			out.push(text.slice(at, m.index));
		at = m.index + m[0].length;
		const [, code, strong, strong2, del, em, em2, label, to, escaped] = m;
		if (code !== undefined)
			out.push({ kind: 'code', of: [code] });
		else if (escaped !== undefined)
			out.push(escaped);
		else if (to !== undefined)
			out.push({ kind: 'link', to, of: inline(label!, depth + 1) });
		else
			out.push({ kind: (strong ?? strong2) !== undefined ? 'strong' : del !== undefined ? 'del' : 'em', of: inline((strong ?? strong2 ?? del ?? em ?? em2)!.slice(0, SPAN), depth + 1) });
	}
	if (at < text.length)
		out.push(text.slice(at));
	return out;
}

const cells = (line: string): string[] => line.trim().replace(/^\||\|$/g, '').split(/(?<!\\)\|/).map((c) => c.trim());
const item = /^( {0,3})([-*+]|(\d{1,9})[.)]) +/;
const deeper = (line: string, than: string): boolean => line.search(/\S/) > than.length + 1;
const begins = /^ {0,3}(#{1,6} |>|```|~~~|([-*_] *){3,}$)/;

export function blocks(text: string, depth = 0): Block[] {
	const lines = text.replace(/\r\n?/g, '\n').split('\n');
	const out: Block[] = [];
	let i = 0;
	/** The lines from I on for which WHILE holds. */
	const take = (whilst: (line: string, n: number) => boolean): string[] => {
		const from = i;
		while (i < lines.length && whilst(lines[i]!, i - from))
			i++;
		return lines.slice(from, i);
	};
	while (i < lines.length) {
		const line = lines[i]!;
		const head = /^ {0,3}(#{1,6}) +(.*?)(?: +#+)? *$/.exec(line);
		const fence = /^ {0,3}(```+|~~~+) *([\w+-]*)/.exec(line);
		const first = item.exec(line);
		if (line.trim() === '') {
			i++;
		} else if (head) {
			out.push({ kind: 'head', level: head[1]!.length, of: inline(head[2]!) });
			i++;
		} else if (fence) {
			i++;
			out.push({ kind: 'code', language: fence[2]!, text: take((l) => !l.trim().startsWith(fence[1]!)).join('\n') });
			i++;
		} else if (/^ {0,3}([-*_] *){3,}$/.test(line) && line.length < 200) {
			out.push({ kind: 'rule' });
			i++;
		} else if (/^ {0,3}>/.test(line) && depth < DEPTH) {
			out.push({ kind: 'quote', of: blocks(take((l) => /^ {0,3}>/.test(l)).map((l) => l.replace(/^ {0,3}> ?/, '')).join('\n'), depth + 1) });
		} else if (line.includes('|') && /^[\s|:-]*-[\s|:-]*$/.test(lines[i + 1] ?? '') && (lines[i + 1] ?? '').includes('|')) {
			const rows = take((l) => l.includes('|')).map(cells);
			out.push({ kind: 'table', head: rows[0]!.map((c) => inline(c)), rows: rows.slice(2).map((r) => r.map((c) => inline(c))) });
		} else if (first && depth < DEPTH) {
			const ordered = first[3] !== undefined;
			const items: string[][] = [];
			take((l, n) => {
				const m = item.exec(l);
				if (m && (m[3] !== undefined) === ordered && !deeper(l, first[1]!))
					items.push([l.slice(m[0].length)]);
				else if (n > 0 && (/^ {2,}|^\t/.test(l) || (l.trim() === '' && /^ {2,}\S/.test(lines[i + 1] ?? ''))))
					items.at(-1)!.push(l.replace(/^(\t| {2,4})/, ''));
				else
					return false;
				return true;
			});
			out.push({ kind: 'list', ordered, start: Number(first[3] ?? 1), items: items.map((lines) => blocks(lines.join('\n'), depth + 1)) });
		} else {
			out.push({ kind: 'text', of: inline(take((l, n) => n === 0 || (l.trim() !== '' && !begins.test(l) && !item.test(l))).join('\n')) });
		}
	}
	return out;
}
