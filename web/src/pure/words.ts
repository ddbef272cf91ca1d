// SPDX-License-Identifier: Apache-2.0
// Highlighting of shell commands: enough to tell words, strings, variables and comments apart.

export type Token = [text: string, kind: '' | 'keyword' | 'string' | 'variable' | 'comment' | 'operator' | 'command' | 'option'];

const rule = /(#[^\n]*)|("(?:\\[^]|[^"\\])*"?|'[^']*'?)|(\$(?:\{[^}\n]*\}?|\(?\w*|[#?@*!$-]))|(\|\|?|&&?|;;?|[<>]+&?\d?|[(){}])|([^\s"'$|&;<>(){}]+)|(\s+)/g;
const keywords = new Set(['if', 'then', 'else', 'elif', 'fi', 'for', 'in', 'do', 'done', 'while', 'until', 'case', 'esac', 'function', 'return', 'export', 'local', 'set', 'cd']);

export function shell(code: string): Token[] {
	const out: Token[] = [];
	let first = true; // the next word names a command
	for (const m of code.matchAll(rule)) {
		const [all, comment, string, variable, operator, word] = m;
		if (comment !== undefined && m.index > 0 && !/[\s;&|(]/.test(code[m.index - 1]!)) {
			out.push([all, '']);
		} else if (comment !== undefined) {
			out.push([all, 'comment']);
		} else if (string !== undefined) {
			out.push([all, 'string']);
			first = false;
		} else if (variable !== undefined) {
			out.push([all, 'variable']);
		} else if (operator !== undefined) {
			out.push([all, 'operator']);
			first = !/[<>]/.test(operator);
		} else if (word !== undefined) {
			const kind: Token[1] = keywords.has(word) ? 'keyword' : first && !/^\w+=/.test(word) ? 'command' : word.startsWith('-') ? 'option' : '';
			out.push([all, kind]);
			first = kind === 'keyword' && !['cd', 'export', 'local', 'set', 'for', 'case', 'in', 'return', 'function'].includes(word) || (first && kind === '');
		} else {
			out.push([all, '']);
			first ||= all.includes('\n');
		}
	}
	return out;
}
