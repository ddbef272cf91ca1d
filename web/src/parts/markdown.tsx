// SPDX-License-Identifier: Apache-2.0
// Markdown as elements: each text is a text node, so none of it can become markup.

import { useMemo } from 'preact/hooks';
import { blocks, type Block, type Inline } from '../pure/markdown.ts';
import { Code } from './code.tsx';

/** UNDER: the level of the heading above it. */
export function Markdown({ value, under = 2 }: { value: string; under?: number }) {
	const found = useMemo(() => blocks(value), [value]);
	let level = under; // of the heading before: the next one is at most one below it, whatever the text says
	return <div class="markdown">{found.map((b) => b.kind === 'head' ? <Head b={b} level={(level = Math.min(6, level + 1, under + b.level))} /> : <One b={b} />)}</div>;
}

function Head({ b, level }: { b: Extract<Block, { kind: 'head' }>; level: number }) {
	return <div class={`head h${b.level}`} role="heading" aria-level={level}><Words of={b.of} /></div>;
}

function One({ b }: { b: Block }) {
	switch (b.kind) {
	case 'head': // in a list or a quote
		return <p class={`head h${b.level}`}><Words of={b.of} /></p>;
	case 'text':
		return <p><Words of={b.of} /></p>;
	case 'code':
		return <pre tabIndex={0}><Code code={b.text} language={/^py/i.test(b.language) ? 'python' : 'shell'} /></pre>;
	case 'list': {
		const items = b.items.map((i) => <li>{i.map((x) => x.kind === 'text' ? <div><Words of={x.of} /></div> : <One b={x} />)}</li>);
		return b.ordered ? <ol start={b.start}>{items}</ol> : <ul>{items}</ul>;
	}
	case 'quote':
		return <blockquote>{b.of.map((x) => <One b={x} />)}</blockquote>;
	case 'table':
		return <div class="scroll-x" tabIndex={0}><table><thead><tr>{b.head.map((c) => <th scope="col"><Words of={c} /></th>)}</tr></thead><tbody>{b.rows.map((r) => <tr>{r.map((c) => <td><Words of={c} /></td>)}</tr>)}</tbody></table></div>;
	default:
		return <hr />;
	}
}

function Words({ of }: { of: Inline[] }) {
	return (
		<>
			{of.map((x) => {
				if (typeof x === 'string')
					return x;
				if (x.kind === 'link')
					return <a href={x.to} target="_blank" rel="noreferrer noopener"><Words of={x.of} /></a>;
				const Tag = x.kind;
				return <Tag><Words of={x.of} /></Tag>;
			})}
		</>
	);
}
