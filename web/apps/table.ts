// SPDX-License-Identifier: Apache-2.0
// Tables out of files that are read in parts through the host: CSV and TSV as text, parquet as a whole.

import type { Content, Host } from './host.ts';
import { uriOf } from './facts.ts';

const PART = 256 * 1024; // bytes of one part
const BYTES_MAX = 4 * 1024 * 1024; // of one file: what is behind it is not shown
const ROWS_MAX = 20_000;
const COLUMNS_MAX = 200;
const CELL_MAX = 300; // characters shown of one cell

export interface Table {
	columns: string[];
	rows: string[][];
	/** Rows or bytes are missing at the end. */
	more: boolean;
}

export const isTable = (name: string): boolean => /\.(csv|tsv|parquet)$/i.test(name);

function bytesOf(c: Content | undefined): Uint8Array {
	if (c?.blob !== undefined) return Uint8Array.from(atob(c.blob), (ch) => ch.charCodeAt(0));
	return new TextEncoder().encode(c?.text ?? '');
}

async function readBytes(host: Host, session: string, path: string, size: number): Promise<{ bytes: Uint8Array; more: boolean }> {
	const parts: Uint8Array[] = [];
	let at = 0;
	while (at < Math.min(size, BYTES_MAX)) {
		const part = bytesOf((await host.read(uriOf(session, path, at, Math.min(PART, BYTES_MAX - at))))[0]);
		if (part.length === 0) break; // the file became shorter
		parts.push(part);
		at += part.length;
	}
	const bytes = new Uint8Array(at);
	let to = 0;
	for (const p of parts) {
		bytes.set(p, to);
		to += p.length;
	}
	return { bytes, more: at < size };
}

/** The lines of a text with separators, as RFC 4180 has them. */
export function parseCsv(text: string, separator: string): string[][] {
	const rows: string[][] = [];
	let row: string[] = [];
	let cell = '';
	let quoted = false;
	const endRow = (): void => {
		row.push(cell);
		cell = '';
		if (row.length > 1 || row[0] !== '') rows.push(row);
		row = [];
	};
	for (let i = 0; i < text.length && rows.length <= ROWS_MAX; i++) {
		const c = text[i]!;
		if (quoted) {
			if (c !== '"') cell += c;
			else if (text[i + 1] === '"') cell += text[++i];
			else quoted = false;
		} else if (c === '"' && cell === '') quoted = true;
		else if (c === separator) {
			row.push(cell);
			cell = '';
		} else if (c === '\n') endRow();
		else if (c !== '\r' || text[i + 1] !== '\n') cell += c;
	}
	if (cell !== '' || row.length > 0) endRow();
	return rows;
}

const trimmed = (row: unknown[]): string[] => row.slice(0, COLUMNS_MAX).map((v) => {
	const text = v === null || v === undefined ? '' : typeof v === 'object' && !(v instanceof Date) ? JSON.stringify(v, (_, x: unknown) => typeof x === 'bigint' ? String(x) : x) : v instanceof Date ? v.toISOString() : String(v);
	return text.length > CELL_MAX ? `${text.slice(0, CELL_MAX)}…` : text;
});

export async function readTable(host: Host, session: string, path: string, size: number): Promise<Table> {
	const { bytes, more } = await readBytes(host, session, path, size);
	if (/\.parquet$/i.test(path)) {
		if (more) throw new Error('too large');
		const { parquetReadObjects } = await import('hyparquet');
		const objects = await parquetReadObjects({ file: bytes.buffer as ArrayBuffer, rowEnd: ROWS_MAX + 1 });
		const columns = Object.keys(objects[0] ?? {});
		return { columns: trimmed(columns), rows: objects.slice(0, ROWS_MAX).map((o) => trimmed(columns.map((c) => o[c]))), more: objects.length > ROWS_MAX };
	}
	const text = new TextDecoder().decode(bytes);
	const rows = parseCsv(text, /\.tsv$/i.test(path) ? '\t' : text.slice(0, 4096).split('\n')[0]!.includes(';') && !text.slice(0, 4096).split('\n')[0]!.includes(',') ? ';' : ',');
	if (more && rows.length > 1) rows.pop(); // it was cut
	return { columns: trimmed(rows[0] ?? []), rows: rows.slice(1, ROWS_MAX + 1).map(trimmed), more: more || rows.length > ROWS_MAX };
}

/** The picture in a file as an address for <img>. */
export async function readPicture(host: Host, session: string, path: string): Promise<string> {
	const c = (await host.read(uriOf(session, path)))[0];
	if (c?.blob === undefined || !/^image\/(png|jpeg|gif|webp)$/.test(c.mimeType ?? '')) throw new Error('no picture');
	return `data:${c.mimeType};base64,${c.blob}`;
}

export async function readText(host: Host, session: string, path: string, size: number): Promise<string> {
	const c = (await host.read(uriOf(session, path, 0, Math.min(size, 64 * 1024))))[0];
	return new TextDecoder().decode(bytesOf(c));
}
