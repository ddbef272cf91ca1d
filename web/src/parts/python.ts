// SPDX-License-Identifier: Apache-2.0
import { classHighlighter, highlightCode } from '@lezer/highlight';
import { parser } from '@lezer/python';

/** Pieces of Python with the classes of their kind (tok-keyword and so on). */
export function highlight(code: string): [string, string][] {
	const out: [string, string][] = [];
	highlightCode(code, parser.parse(code), classHighlighter, (t, classes) => out.push([t, classes]), () => out.push(['\n', '']));
	return out;
}
