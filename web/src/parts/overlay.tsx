// SPDX-License-Identifier: Apache-2.0
// What lies over the page: dialogs, menus, short messages.

import { signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useId, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { text } from '../text/en.ts';
import { Button, Fault, wordsOf } from './basics.tsx';
import { Icon } from './icon.tsx';

/** A modal dialog. The browser keeps the focus inside; Escape closes it. */
export function Dialog({ title, wide, onClose, children }: { title: string; wide?: boolean; onClose: () => void; children: ComponentChildren }) {
	const ref = useRef<HTMLDialogElement>(null);
	const id = useId();
	useLayoutEffect(() => {
		const d = ref.current!;
		const before = document.activeElement as HTMLElement | null;
		d.showModal();
		return () => {
			d.close();
			before?.focus();
		};
	}, []);
	return (
		<dialog ref={ref} class={wide ? 'wide' : ''} aria-labelledby={id} onCancel={(e) => (e.preventDefault(), onClose())} onClick={(e) => e.target === ref.current && onClose()}>
			<div class="dialog"><h2 id={id}>{title}</h2>{children}</div>
		</dialog>
	);
}

/** A dialog that asks before something is done, or collects fields; RUN may fail, and then the dialog stays with the reason. */
export function ActionDialog({ title, action, alarm, wide, onClose, run, children }: { title: string; action: string; alarm?: boolean; wide?: boolean; onClose: () => void; run: (form: FormData) => Promise<unknown>; children?: ComponentChildren }) {
	return (
		<Dialog title={title} wide={wide} onClose={onClose}>
			<ActionForm action={action} alarm={alarm} onCancel={onClose} run={async (form) => (await run(form), onClose())}>{children}</ActionForm>
		</Dialog>
	);
}

/** What is in such a dialog, for one that goes on with something else when RUN has succeeded. */
export function ActionForm({ action, alarm, onCancel, run, children }: { action: string; alarm?: boolean; onCancel: () => void; run: (form: FormData) => Promise<unknown>; children?: ComponentChildren }) {
	const [busy, setBusy] = useState(false);
	const [error, setError] = useState<unknown>(null);
	const submit = async (e: SubmitEvent): Promise<void> => {
		e.preventDefault();
		setBusy(true);
		setError(null);
		try {
			await run(new FormData(e.target as HTMLFormElement));
		} catch (x) {
			setError(x);
			setBusy(false);
		}
	};
	return (
		<form class="stack" onSubmit={(e) => void submit(e)}>
			{children}
			<div class="dialog-end">
				{error !== null && <Fault error={error} />}
				<div class="actions">
					<Button label={text.common.cancel} onClick={onCancel} />
					<Button label={action} type="submit" look={alarm ? 'alarm primary' : 'primary'} busy={busy} />
				</div>
			</div>
		</form>
	);
}

export interface MenuItem {
	icon: string;
	label: string;
	alarm?: boolean;
	href?: string;
	download?: boolean;
	run?: () => void;
}

/** A button that opens a list of actions: arrow keys move, Escape closes. */
export function Menu({ label, items, icon = 'ellipsis' }: { label: string; items: MenuItem[]; icon?: string }) {
	const [open, setOpen] = useState<DOMRect | null>(null);
	const button = useRef<HTMLSpanElement>(null);
	const list = useRef<HTMLDivElement>(null);
	const close = (back = true): void => {
		setOpen(null);
		if (back)
			button.current?.querySelector('button')?.focus();
	};
	useLayoutEffect(() => {
		if (!open)
			return;
		const l = list.current!;
		const below = innerHeight - open.bottom - 12;
		const up = l.offsetHeight > below && open.top > below; // above the button, which stays in sight
		l.style.maxHeight = `${up ? open.top - 12 : below}px`;
		l.style.top = `${up ? Math.max(8, open.top - 4 - l.offsetHeight) : open.bottom + 4}px`;
		l.style.left = `${Math.max(8, Math.min(open.right - l.offsetWidth, innerWidth - l.offsetWidth - 8))}px`;
		l.querySelector<HTMLElement>('button, a')?.focus();
		const away = (e: Event): void => {
			if (!l.contains(e.target as Node))
				close(false);
		};
		const gone = (): void => close(false);
		addEventListener('pointerdown', away, true);
		addEventListener('scroll', away, true);
		addEventListener('resize', gone);
		return () => {
			removeEventListener('pointerdown', away, true);
			removeEventListener('scroll', away, true);
			removeEventListener('resize', gone);
		};
	}, [open]);
	const key = (e: KeyboardEvent): void => {
		const all = [...list.current!.querySelectorAll<HTMLElement>('button, a')];
		const at = all.indexOf(document.activeElement as HTMLElement);
		const to = { ArrowDown: (at + 1) % all.length, ArrowUp: (at - 1 + all.length) % all.length, Home: 0, End: all.length - 1 }[e.key];
		if (to !== undefined)
			all[to]!.focus();
		else if (e.key === 'Escape')
			close();
		else if (e.key === 'Tab')
			return close(false);
		else
			return;
		e.preventDefault();
		e.stopPropagation();
	};
	return (
		<span ref={button}>
			<button type="button" class="button plain icon-only" aria-label={label} title={label} aria-haspopup="menu" aria-expanded={open ? 'true' : 'false'} onClick={(e) => setOpen(open ? null : e.currentTarget.getBoundingClientRect())}><Icon name={icon} /></button>
			{open && (
				<div ref={list} class="menu" role="menu" aria-label={label} onKeyDown={key}>
					{items.map((i) => i.href
						? <a role="menuitem" class={i.alarm ? 'alarm' : ''} href={i.href} download={i.download ? '' : undefined} onClick={() => close()}><Icon name={i.icon} />{i.label}</a>
						: <button role="menuitem" type="button" class={i.alarm ? 'alarm' : ''} onClick={() => (close(), i.run?.())}><Icon name={i.icon} />{i.label}</button>)}
				</div>
			)}
		</span>
	);
}

interface Toast { id: number; words: string; bad: boolean }
const toasts = signal<Toast[]>([]);
let nextToast = 1;

export function say(words: string, bad = false): void {
	const t = { id: nextToast++, words, bad };
	toasts.value = [...toasts.value.slice(-3), t];
	setTimeout(() => drop(t.id), bad ? 12_000 : 4_000);
}

/** For promises that nobody waits for: a failure becomes a short message. */
export function sayFault(error: unknown): void {
	say(wordsOf(error), true);
}

function drop(id: number): void {
	toasts.value = toasts.value.filter((t) => t.id !== id);
}

export function Toasts() {
	return (
		<div class="toasts" role="region" aria-label={text.common.messages} aria-live="polite">
			{toasts.value.map((t) => (
				<div key={t.id} class={`toast ${t.bad ? 'bad' : ''}`}>
					<Icon name={t.bad ? 'circle-alert' : 'circle-check'} /><div>{t.words}</div>
					<Button icon="x" label={text.common.close} iconOnly tiny look="plain" onClick={() => drop(t.id)} />
				</div>
			))}
		</div>
	);
}
