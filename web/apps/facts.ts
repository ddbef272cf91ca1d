// SPDX-License-Identifier: Apache-2.0
// What a result of the sandbox_* tools says, whichever tool gave it. Every field comes from a server and from code that a model wrote:
// nothing here is trusted to be there, to have a type, or to be short.

export interface FileFact {
	path: string;
	name: string;
	size: number;
	type: string;
	link: string | null;
}

export interface Picture {
	src: string;
	name: string;
}

export interface Facts {
	session: string;
	failed: boolean;
	/** How a run ended, in words; '' for results that are no run. */
	end: string;
	ms: number | null;
	texts: { kind: 'hint' | 'stdout' | 'stderr' | 'value' | 'text' | 'error'; text: string }[];
	pictures: Picture[];
	files: FileFact[];
}

const PICTURES = ['image/png', 'image/jpeg', 'image/gif', 'image/webp'];
const FILES_MAX = 500;
const PICTURES_MAX = 32;
const TEXT_MAX = 400_000; // characters of one text

type Json = Record<string, unknown>;
const isObject = (v: unknown): v is Json => typeof v === 'object' && v !== null && !Array.isArray(v);
const string = (v: unknown): string => typeof v === 'string' ? v.slice(0, TEXT_MAX) : '';
const number = (v: unknown): number | null => typeof v === 'number' && Number.isFinite(v) ? v : null;

/** Only links to web pages: javascript: and the like are none. */
function linkOf(v: unknown): string | null {
	try {
		const url = new URL(string(v));
		return url.protocol === 'http:' || url.protocol === 'https:' ? url.href : null;
	} catch {
		return null;
	}
}

function fileOf(v: unknown): FileFact | null {
	if (!isObject(v) || typeof v.path !== 'string') return null;
	const path = v.path.replace(/^\/mnt\/data\//, '');
	return { path, name: path, size: number(v.size_bytes) ?? 0, type: string(v.mime_type), link: linkOf(v.download_url) };
}

function endOf(o: Json): string {
	const reason = string(o.reason);
	if (reason === '') return '';
	if (reason !== 'exited') return reason.replace('_', ' ');
	return o.exit_code === 0 ? 'done' : `exit code ${number(o.exit_code) ?? '?'}`;
}

/** RESULT: a CallToolResult. */
export function factsOf(result: unknown): Facts {
	const r: Json = isObject(result) ? result : {};
	const blocks: Json[] = Array.isArray(r.content) ? r.content.filter(isObject) : [];
	const outer: Json = isObject(r.structuredContent) ? r.structuredContent : {};
	const meta: Json = isObject(r._meta) ? r._meta : {};
	const inner = isObject(outer.result) ? outer.result : isObject(meta['caisson/result']) ? meta['caisson/result'] : outer;
	const isRun = typeof inner.reason === 'string';
	const texts: Facts['texts'] = [];
	const add = (kind: Facts['texts'][number]['kind'], v: unknown): void => {
		const text = string(v);
		if (text.trim() !== '') texts.push({ kind, text });
	};
	if (r.isError === true) {
		add('error', inner.message ?? blocks[0]?.text);
		add('hint', inner.hint);
	} else if (isRun) {
		add('hint', inner.hint);
		add('stdout', inner.stdout);
		add('stderr', inner.stderr);
		add('value', inner.result);
	} else if (!Array.isArray(inner.files))
		for (const b of blocks)
			if (b.type === 'text') add('text', b.text);
	const listed: unknown[] = Array.isArray(inner.artifacts) ? inner.artifacts : Array.isArray(inner.files) ? inner.files : isObject(inner) && inner.path ? [inner] : [];
	const files = listed.slice(0, FILES_MAX).map(fileOf).filter((f) => f !== null);
	const names = files.filter((f) => f.type.startsWith('image/')).map((f) => f.name);
	const pictures = blocks.filter((b) => b.type === 'image' && PICTURES.includes(string(b.mimeType)) && typeof b.data === 'string' && /^[A-Za-z0-9+/=]*$/.test(b.data))
		.slice(0, PICTURES_MAX).map((b, i) => ({ src: `data:${string(b.mimeType)};base64,${b.data as string}`, name: names[i] ?? `${i + 1}` }));
	return {
		session: string(inner.session_id), failed: r.isError === true || (isRun && (inner.reason !== 'exited' || inner.exit_code !== 0)),
		end: r.isError === true ? string(inner.error) || 'error' : endOf(inner), ms: number(inner.duration_ms), texts, pictures, files,
	};
}

/** The address of a file as an MCP resource. */
export function uriOf(session: string, path: string, offset?: number, length?: number): string {
	const at = path.split('/').map(encodeURIComponent).join('/');
	return `sandbox://${session}/${at}${length === undefined ? '' : `?offset=${offset ?? 0}&length=${length}`}`;
}
