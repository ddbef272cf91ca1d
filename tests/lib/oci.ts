// SPDX-License-Identifier: Apache-2.0
// Container images made by hand, byte for byte: tar files with any names, layers, Docker archives, OCI layouts, and a registry that
// serves them and may lie.

import { createHash } from 'node:crypto';
import * as fs from 'node:fs';
import * as http from 'node:http';
import type { AddressInfo } from 'node:net';
import * as path from 'node:path';
import { gzipSync } from 'node:zlib';

export const sha256 = (data: Buffer | string): string => 'sha256:' + createHash('sha256').update(data).digest('hex');

export interface Entry {
	name: string;
	type?: 'file' | 'hard' | 'link' | 'char' | 'block' | 'dir' | 'fifo';
	body?: Buffer | string;
	target?: string;
	mode?: number;
	/** What the header says, if it lies. */
	size?: number;
	/** Records of a pax header. */
	pax?: Record<string, string>;
}

const types = { file: '0', hard: '1', link: '2', char: '3', block: '4', dir: '5', fifo: '6', pax: 'x' };

function block(name: string, type: keyof typeof types, size: number, mode: number, target: string): Buffer {
	const b = Buffer.alloc(512);
	b.write(name, 0, 100);
	b.write(mode.toString(8).padStart(7, '0'), 100);
	b.write('0000000', 108);
	b.write('0000000', 116);
	b.write(size.toString(8).padStart(11, '0'), 124);
	b.write('07346545000', 136); // one second of 2001
	b.write('        ', 148);
	b.write(types[type], 156);
	b.write(target, 157, 100);
	b.write('ustar\0' + '00', 257);
	b.write('0000001\0' + '0000003\0', 329);
	b.write([...b].reduce((sum, c) => sum + c, 0).toString(8).padStart(6, '0') + '\0 ', 148);
	return b;
}

function padded(data: Buffer): Buffer {
	return Buffer.concat([data, Buffer.alloc((512 - data.length % 512) % 512)]);
}

export function tar(entries: Entry[]): Buffer {
	const parts: Buffer[] = [];
	for (const e of entries) {
		const body = Buffer.from(e.body ?? '');
		const pax: Record<string, string> = { ...e.pax };
		if (e.name.length > 100)
			pax.path = e.name;
		if ((e.target ?? '').length > 100)
			pax.linkpath = e.target!;
		if (Object.keys(pax).length > 0) {
			const text = Buffer.from(Object.entries(pax).map(([k, v]) => {
				const rest = ` ${k}=${v}\n`;
				let n = rest.length + 1;
				while (String(n).length + rest.length !== n)
					n++;
				return n + rest;
			}).join(''));
			parts.push(block('pax', 'pax', text.length, 0o644, ''), padded(text));
		}
		parts.push(block(e.name, e.type ?? 'file', e.size ?? body.length, e.mode ?? (e.type === 'dir' ? 0o755 : 0o644), e.target ?? ''), padded(body));
	}
	return Buffer.concat([...parts, Buffer.alloc(1024)]);
}

/** As much of a static program for this machine as an import looks at; nobody executes it. */
export function program(machine = process.arch === 'x64' ? 62 : 183): Buffer {
	const b = Buffer.alloc(64);
	b.write('\x7fELF\x02\x01\x01', 'latin1');
	b.writeUInt16LE(machine, 18);
	b.writeUInt16LE(56, 54);
	return b;
}

/** A root file system that an import accepts. */
export const root: Entry[] = [
	{ name: 'usr/', type: 'dir' }, { name: 'usr/bin/', type: 'dir' }, { name: 'etc/', type: 'dir' },
	{ name: 'usr/bin/python3.12', body: program(), mode: 0o755 }, { name: 'usr/bin/python3', type: 'link', target: 'python3.12' },
];

export const architecture = process.arch === 'x64' ? 'amd64' : 'arm64';

export interface Image {
	blobs: Map<string, Buffer>;
	layers: Buffer[];
	config: Buffer;
	manifest: Buffer;
}

export interface ImageOptions {
	env?: string[];
	platform?: string;
	/** Changes the manifest before it is written. */
	manifest?: (m: Record<string, any>) => void;
	config?: (c: Record<string, any>) => void;
	plain?: boolean; // layers without compression
}

export function image(layers: Buffer[], o: ImageOptions = {}): Image {
	const blobs = new Map<string, Buffer>();
	const keep = (b: Buffer): { digest: string; size: number } => {
		blobs.set(sha256(b), b);
		return { digest: sha256(b), size: b.length };
	};
	const config: Record<string, any> = {
		architecture: o.platform ?? architecture, os: 'linux', config: { Env: o.env ?? [] },
		rootfs: { type: 'layers', diff_ids: layers.map(sha256) },
	};
	o.config?.(config);
	const configText = Buffer.from(JSON.stringify(config));
	const manifest: Record<string, any> = {
		schemaVersion: 2, mediaType: 'application/vnd.oci.image.manifest.v1+json',
		config: { mediaType: 'application/vnd.oci.image.config.v1+json', ...keep(configText) },
		layers: layers.map((l) => ({ mediaType: 'application/vnd.oci.image.layer.v1.tar', ...keep(o.plain ? l : gzipSync(l, { level: 1 })) })),
	};
	o.manifest?.(manifest);
	const text = Buffer.from(JSON.stringify(manifest));
	keep(text);
	return { blobs, layers, config: configText, manifest: text };
}

/** The files of an OCI layout. */
export function layout(i: Image, index?: object): Record<string, Buffer> {
	const files: Record<string, Buffer> = {
		'oci-layout': Buffer.from('{"imageLayoutVersion":"1.0.0"}'),
		'index.json': Buffer.from(JSON.stringify(index ?? { schemaVersion: 2, manifests: [{ mediaType: 'application/vnd.oci.image.manifest.v1+json', digest: sha256(i.manifest), size: i.manifest.length }] })),
	};
	for (const [digest, body] of i.blobs)
		files[`blobs/sha256/${digest.slice(7)}`] = body;
	return files;
}

/** The files of `docker save`, as Docker before 25 writes them. */
export function dockerArchive(i: Image, tags = ['some/image:1']): Record<string, Buffer> {
	const config = `${sha256(i.config).slice(7)}.json`;
	const files: Record<string, Buffer> = { [config]: i.config };
	const names = i.layers.map((l, n) => `${sha256(l).slice(7, 71)}${n}/layer.tar`);
	i.layers.forEach((l, n) => files[names[n]!] = l);
	files['manifest.json'] = Buffer.from(JSON.stringify([{ Config: config, RepoTags: tags, Layers: names }]));
	return files;
}

export function tarOf(files: Record<string, Buffer>): Buffer {
	return tar(Object.entries(files).map(([name, body]) => ({ name, body })));
}

export function writeFiles(folder: string, files: Record<string, Buffer>): string {
	for (const [name, body] of Object.entries(files)) {
		fs.mkdirSync(path.dirname(path.join(folder, name)), { recursive: true });
		fs.writeFileSync(path.join(folder, name), body);
	}
	return folder;
}

/** A registry on loopback. LIE answers first, if it wants to (it returns true). */
export class Registry {
	readonly requests: { url: string; authorization?: string; range?: string }[] = [];
	private images = new Map<string, { image: Image; index?: Buffer }>();
	private tags = new Map<string, Image>();
	lie: (req: http.IncomingMessage, res: http.ServerResponse) => boolean = () => false;
	private server = http.createServer((req, res) => this.answer(req, res));
	host = '';

	async open(): Promise<void> {
		await new Promise<void>((resolve) => this.server.listen(0, '127.0.0.1', resolve));
		this.host = `127.0.0.1:${(this.server.address() as AddressInfo).port}`;
	}
	close(): void {
		this.server.closeAllConnections();
		this.server.close();
	}
	add(name: string, i: Image, index?: object): void {
		this.images.set(name, { image: i, index: index && Buffer.from(JSON.stringify(index)) });
	}
	/** One tag of a repository has another image than the others; its blobs are asked for first. */
	addTag(name: string, tag: string, i: Image): void {
		this.tags.set(`${name}:${tag}`, i);
	}
	removeTags(): void {
		this.tags.clear();
	}
	/** What only tags have. */
	private tagged(name: string, what: string): Buffer | undefined {
		return this.tags.get(`${name}:${what}`)?.manifest ?? [...this.tags].filter(([at]) => at.startsWith(`${name}:`)).map(([, i]) => i.blobs.get(what)).find((b) => b !== undefined);
	}
	private found(of: { image: Image; index?: Buffer } | null | undefined, what: string): Buffer | undefined {
		if (!of)
			return undefined;
		if (!what.startsWith('sha256:'))
			return of.index ?? of.image.manifest;
		return of.image.blobs.get(what) ?? (of.index && sha256(of.index) === what ? of.index : undefined);
	}
	private answer(req: http.IncomingMessage, res: http.ServerResponse): void {
		this.requests.push({ url: req.url!, authorization: req.headers.authorization, range: req.headers.range });
		if (this.lie(req, res))
			return;
		if (req.url === '/v2/')
			return void res.end('{}');
		const m = /^\/v2\/(.+)\/(manifests|blobs)\/([^/]+)$/.exec(req.url!);
		const body = (m && this.tagged(m[1]!, m[3]!)) ?? (m && !m[3]!.endsWith('.minisig') ? this.found(this.images.get(m[1]!), m[3]!) : undefined);
		const from = /^bytes=(\d+)-$/.exec(req.headers.range ?? '');
		if (body && from) {
			const rest = body.subarray(Number(from[1]));
			res.writeHead(206, { 'content-length': rest.length, 'content-range': `bytes ${from[1]}-${body.length - 1}/${body.length}` });
			res.end(rest);
			return;
		}
		const type = m?.[2] === 'manifests' && body ? { 'content-type': `application/vnd.oci.image.${body.includes('"manifests"') ? 'index' : 'manifest'}.v1+json` } : {};
		res.writeHead(body ? 200 : 404, { 'content-length': body?.length ?? 2, ...type });
		res.end(body ?? '{}');
	}
}
