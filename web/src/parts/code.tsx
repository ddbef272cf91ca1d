// SPDX-License-Identifier: Apache-2.0
// Code as it was run, with colours. The highlighter of Python is loaded once, after the text shows.

import { signal } from '@preact/signals';
import { shell, type Token } from '../pure/words.ts';

type Highlight = (code: string) => [text: string, classes: string][];
const python = signal<Highlight | null>(null);
const MAX = 100_000; // characters that get colours
let asked = false;

export function Code({ code, language }: { code: string; language: 'python' | 'shell' | 'javascript' | 'typescript' }) {
	if (language === 'python' && !asked) {
		asked = true;
		void import('./python.ts').then((m) => (python.value = m.highlight));
	}
	const parts = code.length > MAX ? null : language === 'shell' ? shell(code).map(([t, kind]: Token) => [t, kind && `tok-${kind}`] as const) : language === 'python' ? python.value?.(code) : null;
	return <code>{parts ? parts.map(([t, c]) => c ? <span class={c}>{t}</span> : t) : code}</code>;
}
