// SPDX-License-Identifier: Apache-2.0
// CodeMirror with Python, loaded when somebody is about to write. It lives in a shadow root: there it uses constructed style sheets, which the
// page's Content-Security-Policy allows, and not <style> elements, which it blocks.

import { acceptCompletion, autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap, type CompletionContext, type CompletionResult } from '@codemirror/autocomplete';
import { defaultKeymap, history, historyKeymap, indentWithTab } from '@codemirror/commands';
import { python } from '@codemirror/lang-python';
import { bracketMatching, indentOnInput, indentUnit, syntaxHighlighting } from '@codemirror/language';
import { Compartment, EditorState, Prec } from '@codemirror/state';
import { drawSelection, EditorView, keymap, placeholder } from '@codemirror/view';
import { classHighlighter } from '@lezer/highlight';
import type { Completion } from '../api/types.ts';

export interface EditorOptions {
	hint: string;
	run: (code: string) => void;
	previous: () => string | null; // code that was run before, for ArrowUp in an empty editor
	complete: (code: string, cursor: number) => Promise<Completion | null>;
	changed: (code: string) => void;
}

const mix = (color: string, percent: number): string => `color-mix(in srgb, var(--${color}) ${percent}%, transparent)`;
const theme = EditorView.theme({
	'&': { fontSize: '13px', backgroundColor: 'transparent', color: 'var(--ink)' },
	'&.cm-focused': { outline: 'none' },
	'.cm-scroller': { fontFamily: 'var(--mono)', lineHeight: '1.5', maxHeight: '40vh', overflow: 'auto' },
	'.cm-content': { padding: '10px 0', caretColor: 'var(--ink)' },
	'.cm-line': { padding: '0 12px' },
	'.cm-cursor': { borderLeftColor: 'var(--ink)' },
	'.cm-placeholder': { color: 'var(--quiet)' },
	'&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground': { background: mix('accent', 26) },
	'.cm-matchingBracket': { background: mix('accent', 20), color: 'inherit' },
	'.cm-tooltip': { background: 'var(--raised)', border: '1px solid var(--line)', borderRadius: '6px', boxShadow: 'var(--shadow)', overflow: 'hidden' },
	'.cm-tooltip-autocomplete > ul': { fontFamily: 'var(--mono)', fontSize: '13px' },
	'.cm-tooltip-autocomplete > ul > li': { padding: '2px 8px' },
	'.cm-tooltip-autocomplete > ul > li[aria-selected]': { background: 'var(--accent)', color: 'var(--on-accent)' },
	'.cm-completionDetail': { color: 'var(--quiet)' },
	'.tok-keyword, .tok-operatorKeyword, .tok-controlKeyword, .tok-definitionKeyword, .tok-moduleKeyword': { color: 'var(--c5)' },
	'.tok-string, .tok-string2': { color: 'var(--c2)' },
	'.tok-number, .tok-bool, .tok-atom': { color: 'var(--c3)' },
	'.tok-comment, .tok-meta': { color: 'var(--quiet)', fontStyle: 'italic' },
	'.tok-className, .tok-definition': { color: 'var(--c4)' },
});

/** The server counts the cursor in characters, the editor in UTF-16 units. */
const units = (code: string, chars: number): number => [...code].slice(0, chars).join('').length;

/** The server gives no more names. A list of so many is not the whole one, so each further letter has to be asked for. */
const ITEMS_MAX = 200;

function source(o: EditorOptions): (c: CompletionContext) => Promise<CompletionResult | null> {
	return async (c) => {
		const word = c.matchBefore(/[\w.]+|\[\s*["'][^"']*/);
		if (!c.explicit && !word)
			return null;
		const code = c.state.doc.toString();
		const found = await o.complete(code, [...code.slice(0, c.pos)].length).catch(() => null);
		if (!found || found.items.length === 0 || c.aborted)
			return null;
		return { from: units(code, found.start), to: c.pos, options: found.items.map((i) => ({ label: i.label, type: i.type })), validFor: found.items.length < ITEMS_MAX ? /^\w*$/ : undefined };
	};
}

export interface Editor {
	set: (code: string) => void;
	language: (label: string, isPython: boolean) => void; // what is written: its name for people; Python gets colours
	focus: () => void;
	destroy: () => void;
}

export function makeEditor(host: HTMLElement, code: string, o: EditorOptions): Editor {
	const root = host.shadowRoot ?? host.attachShadow({ mode: 'open' });
	const run = (view: EditorView): boolean => {
		const text = view.state.doc.toString();
		if (text.trim() !== '') {
			view.dispatch({ changes: { from: 0, to: text.length } });
			o.run(text);
		}
		return true;
	};
	const recall = (view: EditorView): boolean => {
		const text = view.state.doc.length === 0 ? o.previous() : null;
		if (text === null)
			return false;
		view.dispatch({ changes: { from: 0, insert: text }, selection: { anchor: text.length } });
		return true;
	};
	const written = new Compartment();
	const view = new EditorView({
		root,
		parent: root as unknown as Element,
		state: EditorState.create({
			doc: code,
			extensions: [
				Prec.highest(keymap.of([{ key: 'Mod-Enter', run }, { key: 'Shift-Enter', run }])),
				history(), drawSelection(), indentOnInput(), bracketMatching(), closeBrackets(), indentUnit.of('    '),
				written.of(python()), syntaxHighlighting(classHighlighter), theme, placeholder(o.hint),
				autocompletion({ override: [source(o)], icons: false }),
				keymap.of([...completionKeymap, { key: 'Tab', run: acceptCompletion }, { key: 'ArrowUp', run: recall }, ...closeBracketsKeymap, ...defaultKeymap, ...historyKeymap, indentWithTab]),
				EditorView.lineWrapping,
				EditorView.contentAttributes.of({ spellcheck: 'false', autocapitalize: 'off' }),
				EditorView.updateListener.of((u) => u.docChanged && o.changed(u.state.doc.toString())),
			],
		}),
	});
	return {
		set: (text) => view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text }, selection: { anchor: text.length } }),
		language: (label, isPython) => view.dispatch({ effects: written.reconfigure([isPython ? python() : [], EditorView.contentAttributes.of({ 'aria-label': label })]) }),
		focus: () => view.focus(),
		destroy: () => view.destroy(),
	};
}
