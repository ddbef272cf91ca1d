// SPDX-License-Identifier: Apache-2.0
// The small components: buttons, fields, states, text to copy.

import type { ComponentChildren } from 'preact';
import { useEffect, useId, useState } from 'preact/hooks';
import { Problem } from '../api/client.ts';
import { text } from '../text/en.ts';
import { Icon } from './icon.tsx';

export interface ButtonProps {
	icon?: string;
	label: string; // also of a button that shows only an icon
	title?: string; // more about what it does
	iconOnly?: boolean;
	look?: 'primary' | 'plain' | 'alarm' | 'alarm primary' | 'plain alarm';
	tiny?: boolean;
	busy?: boolean;
	disabled?: boolean;
	type?: 'submit';
	onClick?: (e: MouseEvent) => void;
}

export function Button({ icon, label, title, iconOnly, look, tiny, busy, disabled, type, onClick }: ButtonProps) {
	const name = `button ${look ?? ''} ${iconOnly ? 'icon-only' : ''} ${tiny ? 'tiny' : ''}`;
	return (
		<button type={type ?? 'button'} class={name} disabled={disabled || busy} onClick={onClick} aria-label={iconOnly ? label : undefined} title={title ?? (iconOnly ? label : undefined)}>
			{busy ? <span class="spinner" aria-hidden="true" /> : icon && <Icon name={icon} size={tiny ? 14 : 16} />}
			{!iconOnly && label}
		</button>
	);
}

/** A label over one control. CONTROL gets the id, and the attributes that tie hint and fault to it. */
export function Field({ label, hint, wrong, control }: { label: string; hint?: string; wrong?: string | null; control: (a: { id: string; 'aria-describedby'?: string; 'aria-invalid'?: 'true' }) => ComponentChildren }) {
	const id = useId();
	return (
		<div class="field">
			<label for={id}>{label}</label>
			{control({ id, 'aria-describedby': hint || wrong ? `${id}-more` : undefined, 'aria-invalid': wrong ? 'true' : undefined })}
			{(hint || wrong) && <div id={`${id}-more`} class={wrong ? 'wrong' : 'hint'}>{wrong || hint}</div>}
		</div>
	);
}

export function Search({ value, label, onInput }: { value: string; label: string; onInput: (v: string) => void }) {
	return (
		<div class="search">
			<Icon name="search" />
			<input class="input" type="search" value={value} placeholder={label} aria-label={label} onInput={(e) => onInput(e.currentTarget.value)} />
		</div>
	);
}

/** Nothing is here yet: why, and what to do about it. */
export function Empty({ icon, title, top, children }: { icon: string; title: string; top?: boolean; children?: ComponentChildren }) {
	return <div class="empty"><Icon name={icon} size={28} />{top ? <h1>{title}</h1> : <h2>{title}</h2>}{children}</div>;
}

export function Loading({ label = text.common.loading }: { label?: string }) {
	return <div class="empty" role="status"><span class="spinner" /><span>{label}</span></div>;
}

/** What went wrong, in the server's words, and what to do. */
export function Fault({ error, retry }: { error: unknown; retry?: () => void }) {
	const hint = error instanceof Problem ? error.hint : undefined;
	return (
		<div class="problem" role="alert">
			<Icon name="circle-alert" />
			<div><p>{wordsOf(error)}</p>{hint && <p class="quiet">{hint}</p>}</div>
			{retry && <Button label={text.common.again} tiny onClick={retry} />}
		</div>
	);
}

export function wordsOf(error: unknown): string {
	return error instanceof Error ? error.message : String(error);
}

export function CopyButton({ value, label = text.common.copy, tiny = true, iconOnly }: { value: string | (() => string); label?: string; tiny?: boolean; iconOnly?: boolean }) {
	const [done, setDone] = useState(false);
	useEffect(() => {
		const t = done ? setTimeout(() => setDone(false), 1600) : undefined;
		return () => clearTimeout(t);
	}, [done]);
	const copy = (): void => void copyText(typeof value === 'string' ? value : value()).then(setDone);
	return <Button icon={done ? 'check' : 'copy'} label={done ? text.common.copied : label} tiny={tiny} iconOnly={iconOnly} look={iconOnly ? 'plain' : undefined} onClick={copy} />;
}

/** navigator.clipboard exists only on localhost and over https; elsewhere a selected field does it. */
async function copyText(value: string): Promise<boolean> {
	if (navigator.clipboard) {
		const ok = await navigator.clipboard.writeText(value).then(() => true, () => false);
		if (ok)
			return true;
	}
	const area = document.createElement('textarea');
	area.value = value;
	document.body.append(area);
	area.select();
	const ok = document.execCommand('copy');
	area.remove();
	return ok;
}

/** Text in a box with a button that copies it. */
export function Snippet({ value, label }: { value: string; label: string }) {
	return <div class="snippet"><pre tabIndex={0} aria-label={label}><code>{value}</code></pre><CopyButton value={value} /></div>;
}

/** Draws the component again every MS: for ages and durations. */
export function useClock(ms = 1000): void {
	const [, tick] = useState(0);
	useEffect(() => {
		const clock = setInterval(() => tick((n) => n + 1), ms);
		return () => clearInterval(clock);
	}, [ms]);
}

/** Whether the tab can be seen: what is loaded again and again stops while it cannot. */
export function useVisible(): boolean {
	const [visible, set] = useState(document.visibilityState === 'visible');
	useEffect(() => {
		const look = (): void => set(document.visibilityState === 'visible');
		document.addEventListener('visibilitychange', look);
		return () => document.removeEventListener('visibilitychange', look);
	}, []);
	return visible;
}

/** Loads something with LOAD now and when one of DEPS changes; shows waiting and failure by itself. */
export function useLoad<T>(load: (signal: AbortSignal) => Promise<T>, deps: readonly unknown[]): { value: T | undefined; error: unknown; again: () => void } {
	const [state, set] = useState<{ value?: T; error?: unknown }>({});
	const [turn, setTurn] = useState(0);
	useEffect(() => {
		const stop = new AbortController();
		load(stop.signal).then((value) => stop.signal.aborted || set({ value }), (error: unknown) => stop.signal.aborted || set((s) => ({ ...s, error })));
		return () => stop.abort();
	}, [...deps, turn]);
	return { value: state.value, error: state.error, again: () => setTurn((n) => n + 1) };
}
