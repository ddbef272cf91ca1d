// SPDX-License-Identifier: Apache-2.0
// What the page knows: one store, filled by REST and kept true by events. Components read signals and never fetch what is here.

import { batch, computed, signal, type Signal } from '@preact/signals';
import { api, whenSignedOut } from './client.ts';
import { close, listen, type EventName } from './stream.ts';
import type { Cell, PackageEvent, RunOutput, Sandbox, Session } from './types.ts';
import { noPorts, type Ports } from '../pure/ports.ts';
import { Live, merge, put, settled, write, type Beside } from '../pure/notebook.ts';

export const session = signal<Session | null>(null);
export const sandboxes = signal<ReadonlyMap<string, Sandbox> | null>(null); // null: not loaded yet
export const missing = signal<readonly string[]>([]); // workers of a fleet that did not tell their sandboxes
export const me = computed(() => session.value?.me ?? null);
export const signedIn = computed(() => Boolean(session.value && (!session.value.required || session.value.signed_in)));

/** The notebook of one sandbox as the page shows it. */
export interface Notebook {
	cells: Signal<Cell[]>;
	more: Signal<boolean>; // there are older cells
	loaded: Signal<boolean>;
	ended: Signal<boolean>; // the sandbox is gone; the notebook stays to read
	checkpoints: Signal<number>; // counts changes: whoever shows checkpoints loads them again
	files: Signal<number>; // counts changes of the workspace
	packages: Signal<PackageEvent | null>;
	ports: Signal<Ports>;
	version: Map<string, Signal<number>>; // of the output of runs under way
	live: Map<string, Live>;
}

const PAGE = 100; // cells of one request
const OPEN_MAX = 8; // notebooks that are kept
const notebooks = new Map<string, Notebook>();

export function notebook(id: string): Notebook {
	let n = notebooks.get(id);
	if (!n) {
		n = { cells: signal([]), more: signal(false), loaded: signal(false), ended: signal(false), checkpoints: signal(0), files: signal(0), packages: signal(null), ports: signal(noPorts), version: new Map(), live: new Map() };
		if (notebooks.size >= OPEN_MAX)
			notebooks.delete(notebooks.keys().next().value!);
		notebooks.set(id, n);
	}
	return n;
}

interface Page { cells: Cell[]; more: boolean }

/** Loads the newest cells, or those before the oldest one that is there. */
export async function loadCells(id: string, older = false): Promise<void> {
	const n = notebook(id);
	const first = n.cells.value.find((c) => c.seq !== null)?.seq ?? undefined;
	const page = await api.get<Page>(`/notebooks/${encodeURIComponent(id)}`, { before: older && first !== undefined && first !== null ? first : 0, limit: PAGE }); // 0: the newest, and what runs
	batch(() => {
		for (const c of page.cells)
			if (!settled(c) && !n.live.has(c.run))
				n.live.set(c.run, Live.of(c));
		n.cells.value = merge(n.cells.value, page.cells);
		if (older || !n.loaded.value)
			n.more.value = page.more;
		n.loaded.value = true;
	});
}

/** Ends every run of a sandbox that has not ended. */
export async function stopRuns(id: string): Promise<void> {
	const { cells } = await api.get<Page>(`/notebooks/${encodeURIComponent(id)}`, { before: 0, limit: PAGE });
	await Promise.all(cells.filter((c) => !settled(c)).map((c) => api.remove(`/runs/${encodeURIComponent(c.run)}`)));
}

/** Loads the list; USAGE: with what the live ones use. Figures that could not be had in time stay as they were. */
export async function loadSandboxes(usage = false): Promise<void> {
	const { sandboxes: rows, workers_missing = [] } = await api.get<{ sandboxes: Sandbox[]; workers_missing?: string[] }>('/sandboxes', { usage: usage || undefined });
	const seen_at = Date.now();
	const before = sandboxes.value;
	const next = new Map<string, Sandbox>(rows.map((s) => [s.id, { ...s, seen_at, usage: s.state === 'stored' ? undefined : s.usage ?? before?.get(s.id)?.usage }]));
	if (workers_missing.length > 0) // what is not told is not gone; the end of a sandbox comes as an event
		before?.forEach((s, id) => next.has(id) || next.set(id, s));
	batch(() => {
		missing.value = workers_missing;
		sandboxes.value = next;
	});
}

/** Seconds since it was made, by the clock of the page. */
export function ageOf(s: Sandbox): number {
	return s.age_s + (Date.now() - (s.seen_at ?? Date.now())) / 1000;
}

export function keepSandbox(s: Sandbox): void {
	const next = new Map(sandboxes.value);
	next.set(s.id, { ...sandboxes.value?.get(s.id), ...s, seen_at: Date.now() });
	sandboxes.value = next;
}

export function dropSandbox(id: string): void {
	const next = new Map(sandboxes.value);
	next.delete(id);
	sandboxes.value = next;
}

function cell(c: Cell): void {
	const s = sandboxes.value?.get(c.sandbox);
	const n = notebooks.get(c.sandbox);
	if (s && c.kind !== 'package')
		keepSandbox({ ...s, busy: !settled(c) || Boolean(n?.cells.value.some((x) => x.run !== c.run && x.status === 'running')), idle_s: 0, age_s: ageOf(s) });
	if (!n)
		return;
	n.cells.value = put(n.cells.value, c);
	if (settled(c)) {
		n.live.delete(c.run);
		n.version.delete(c.run);
	}
}

/** Counts up with each piece of output of a run that is under way. */
export function outputVersion(n: Notebook, run: string): Signal<number> {
	let v = n.version.get(run);
	if (!v) {
		v = signal(0);
		n.version.set(run, v);
	}
	return v;
}

function output(e: RunOutput): void {
	const n = notebooks.get(e.sandbox);
	if (!n)
		return;
	let live = n.live.get(e.run);
	if (!live) {
		if (e.offset && !n.loaded.value)
			return; // the cell that is being loaded has the beginning
		live = new Live();
		n.live.set(e.run, live);
	}
	live.add(e);
	fresh.set(e.run, n);
	if (fresh.size === 1)
		setTimeout(drawOutput, DRAW_MS);
}

const DRAW_MS = 40; // output that comes in many pieces is drawn at most so often
const fresh = new Map<string, Notebook>();

function drawOutput(): void {
	batch(() => fresh.forEach((n, run) => n.live.has(run) && outputVersion(n, run).value++));
	fresh.clear();
}

function ended(e: { id: string; kind: string; why: string }): void {
	const s = sandboxes.value?.get(e.id);
	if (s && e.why === 'deactivated')
		return keepSandbox({ ...s, state: 'stored', busy: false, usage: undefined });
	dropSandbox(e.id);
	const n = notebooks.get(e.id);
	if (n)
		n.ended.value = true;
}

function bump(id: string, what: 'files' | 'checkpoints'): void {
	const n = notebooks.get(id);
	if (n)
		n[what].value++;
}

const handlers: Record<EventName, (data: never) => void> = {
	'hello': (d: { resumed: boolean }) => {
		if (!d.resumed)
			reload();
	},
	'resync': () => reload(),
	'sandbox.created': (d: { sandbox: Sandbox }) => keepSandbox(d.sandbox),
	'sandbox.changed': (d: { sandbox: Sandbox }) => keepSandbox(d.sandbox),
	'sandbox.ended': ended,
	'files.changed': (d: { sandbox: string }) => bump(d.sandbox, 'files'),
	'run.queued': (d: { cell: Cell }) => cell(d.cell),
	'run.started': (d: { cell: Cell }) => cell(d.cell),
	'run.output': output,
	'run.ended': (d: { cell: Cell }) => cell(d.cell),
	'checkpoint.made': (d: { sandbox: string }) => bump(d.sandbox, 'checkpoints'),
	'checkpoint.restored': (d: { sandbox: string }) => bump(d.sandbox, 'checkpoints'),
	'checkpoint.removed': (d: { sandbox: string }) => bump(d.sandbox, 'checkpoints'),
	'package': (d: PackageEvent) => {
		const n = notebooks.get(d.sandbox);
		if (n)
			n.packages.value = d;
	},
	'history.added': (d: Beside & { sandbox: string; cell?: Cell }) => {
		const n = notebooks.get(d.sandbox);
		if (n && d.cell)
			n.cells.value = write(n.cells.value, d.cell, d, n.more.value);
	},
	'history.changed': (d: { sandbox: string; run: string; code: string }) => {
		const n = notebooks.get(d.sandbox);
		if (n)
			n.cells.value = n.cells.value.map((c) => c.run === d.run ? { ...c, code: d.code } : c);
	},
	'history.removed': (d: { sandbox: string; run?: string }) => {
		const n = notebooks.get(d.sandbox);
		if (n)
			n.cells.value = n.cells.value.filter((c) => d.run ? c.run !== d.run : !settled(c));
	},
};

/** Events may have been lost: what is shown is loaded again. Notebooks that are not open are dropped. */
function reload(): void {
	void loadSandboxes().catch(() => undefined);
	for (const [id, n] of notebooks) {
		n.live.clear();
		n.cells.value = n.cells.value.filter(settled);
		n.checkpoints.value++;
		n.files.value++;
		if (n.loaded.value)
			void loadCells(id).catch(() => undefined);
	}
}

export async function loadSession(): Promise<void> {
	session.value = await api.get<Session>('/session');
}

let reader: string | null = null; // whose things the page shows

/** Begins to listen when somebody is signed in, or nobody has to. */
export function connect(): void {
	if (!signedIn.value)
		return close();
	const who = me.value?.id ?? '';
	if (reader !== null && reader !== who)
		return location.reload(); // somebody else signed in: nothing of the person before may stay
	reader = who;
	listen((name, data) => batch(() => handlers[name](data)), () => void loadSession().catch(() => undefined));
}

/** Forgets everything of the person who was signed in. */
export function forget(): void {
	close();
	batch(() => {
		notebooks.clear();
		sandboxes.value = null;
	});
}

whenSignedOut(() => {
	const s = session.value;
	if (s?.required && s.signed_in)
		session.value = { ...s, signed_in: false, me: null };
});
