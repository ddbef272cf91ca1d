// SPDX-License-Identifier: Apache-2.0
// Uploads into sandboxes, one after the other. They go on while the reader looks at other pages.

import { signal, type Signal } from '@preact/signals';
import { text } from '../text/en.ts';
import { bytes } from '../pure/format.ts';
import { api, Problem, upload } from './client.ts';
import { notebook } from './state.ts';

export interface Upload {
	id: number;
	name: string;
	size: number;
	sent: number;
	error?: unknown;
}

interface Work { file: File; stop: AbortController }

const lists = new Map<string, Signal<Upload[]>>();
const work = new Map<number, Work>();
let next = 1;
let queue = Promise.resolve();
let limit: Promise<number> | null = null; // bytes of one file

/** The uploads into a sandbox that have not ended well. */
export function uploads(sandbox: string): Signal<Upload[]> {
	let list = lists.get(sandbox);
	if (!list) {
		list = signal([]);
		lists.set(sandbox, list);
	}
	return list;
}

function change(sandbox: string, id: number, more: Partial<Upload>): void {
	const list = uploads(sandbox);
	list.value = list.value.map((u) => u.id === id ? { ...u, ...more } : u);
}

/** Takes an upload off the list, and ends it if it is under way. */
export function dropUpload(sandbox: string, id: number): void {
	work.get(id)?.stop.abort();
	work.delete(id);
	const list = uploads(sandbox);
	list.value = list.value.filter((u) => u.id !== id);
}

async function send(sandbox: string, u: Upload, overwrite: boolean): Promise<void> {
	const w = work.get(u.id);
	if (!w)
		return;
	try {
		const most = await (limit ??= api.get<{ sessions: { upload_bytes: number } }>('/policy').then((p) => p.sessions.upload_bytes, () => (limit = null, Infinity)));
		if (w.file.size > most) // a server that refuses may end the connection before the browser reads why
			throw new Problem(413, { code: 'upload_too_large', detail: text.files.tooLarge(bytes(w.file.size), bytes(most)) });
		await upload(sandbox, u.name, w.file, overwrite, (sent) => change(sandbox, u.id, { sent }), w.stop.signal);
		dropUpload(sandbox, u.id);
		notebook(sandbox).files.value++;
	} catch (error) {
		if (!w.stop.signal.aborted)
			change(sandbox, u.id, { error });
	}
}

export function addUploads(sandbox: string, files: { path: string; file: File }[]): void {
	const fresh = files.map(({ path, file }) => {
		const u = { id: next++, name: path, size: file.size, sent: 0 };
		work.set(u.id, { file, stop: new AbortController() });
		return u;
	});
	const list = uploads(sandbox);
	list.value = [...list.value, ...fresh];
	for (const u of fresh)
		queue = queue.then(() => send(sandbox, u, false));
}

/** Tries again, in the place of a file that exists if OVERWRITE. */
export function sendAgain(sandbox: string, u: Upload, overwrite: boolean): void {
	change(sandbox, u.id, { error: undefined, sent: 0 });
	queue = queue.then(() => send(sandbox, u, overwrite));
}

/** The files of a drop; folders are walked through. */
export async function filesOf(data: DataTransfer): Promise<{ path: string; file: File }[]> {
	const entries = [...data.items].map((i) => i.webkitGetAsEntry()).filter((e) => e !== null);
	if (entries.length === 0)
		return [...data.files].map((file) => ({ path: file.name, file }));
	const out: { path: string; file: File }[] = [];
	for (const e of entries)
		await walk(e, '', out);
	return out;
}

async function walk(entry: FileSystemEntry, base: string, out: { path: string; file: File }[]): Promise<void> {
	if (entry.isFile) {
		out.push({ path: base + entry.name, file: await new Promise((done, failed) => (entry as FileSystemFileEntry).file(done, failed)) });
		return;
	}
	const reader = (entry as FileSystemDirectoryEntry).createReader();
	for (;;) {
		const some = await new Promise<FileSystemEntry[]>((done, failed) => reader.readEntries(done, failed));
		if (some.length === 0)
			return;
		for (const e of some)
			await walk(e, `${base}${entry.name}/`, out);
	}
}
