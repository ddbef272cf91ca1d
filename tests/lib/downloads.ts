// SPDX-License-Identifier: Apache-2.0
// A registry on loopback that has an image `base` with the Python of the tests, which can run: for what happens where an image is missing and a registry has it.

import { execFileSync } from 'node:child_process';
import * as fs from 'node:fs';
import type { ServerResponse } from 'node:http';
import * as path from 'node:path';
import { imagesDir, scratch, scratchInMemory } from './env.ts';
import { image, Registry, sha256, tar, type Image } from './oci.ts';
import { caisson } from './process.ts';

export const FOLDER = 'some/folder';

/** The image of an OCI layout. */
function readLayout(folder: string): Image {
	const blobs = new Map<string, Buffer>();
	const at = path.join(folder, 'blobs/sha256');
	for (const hex of fs.readdirSync(at))
		blobs.set(`sha256:${hex}`, fs.readFileSync(path.join(at, hex)));
	return asSent(blobs, blobs.get(JSON.parse(fs.readFileSync(path.join(folder, 'index.json'), 'utf8')).manifests[0].digest)!);
}

/** With its layers as a registry has them. */
function asSent(blobs: Map<string, Buffer>, manifest: Buffer): Image {
	const { config, layers } = JSON.parse(manifest.toString());
	return { blobs, manifest, config: blobs.get(config.digest)!, layers: layers.map((l: { digest: string }) => blobs.get(l.digest)!) };
}

/** The OCI layout of an image of the tests. */
export async function exported(name: string, ...more: string[]): Promise<string> {
	const folder = scratch('layout'), file = path.join(scratch('export'), `${name}.tar`);
	const r = await caisson(['image', 'export', name, file, '--format', 'oci', ...more]);
	if (r.code !== 0)
		throw new Error(r.stderr.toString());
	execFileSync('tar', ['-C', folder, '-xf', file]);
	fs.rmSync(file);
	return folder;
}

/** Files of the image base that no test of a download needs: with them it takes three times as long to pack, to send and to unpack. */
const bulky = [
	'usr/lib/locale', 'usr/lib/*-linux-gnu/gconv', 'usr/lib/*-linux-gnu/perl-base', 'usr/bin/perl*', 'usr/sbin/*', 'usr/lib/python3/dist-packages/*',
	...['zoneinfo', 'python-wheels', 'perl5', 'terminfo', 'i18n'].map((n) => `usr/share/${n}`),
	...['test', 'pydoc_data', 'ensurepip', 'unittest', 'idlelib', 'turtledemo'].map((n) => `usr/lib/python3.*/${n}`),
];

/** A layer with the rest of the image base: its Python runs. */
export function slimLayer(): Buffer {
	return execFileSync('tar', ['-C', path.join(imagesDir, 'base/root'), '--owner=0', '--group=0', ...bulky.map((n) => `--exclude=./${n}`), '-cf', '-', '.'], { maxBuffer: 1 << 28 });
}

/** An image of it. /tmp is everybody's, as an export makes it. */
export const slim = (): Image => image([slimLayer(), tar([{ name: 'tmp/', type: 'dir', mode: 0o1777 }])]);

/** Puts the images of a layout into a registry: those that their annotations call tags, and the one that has a name as "latest". */
export async function push(layout: string, base: string, name: string): Promise<void> {
	const at = path.join(layout, 'blobs/sha256');
	const put = async (url: string, body: Buffer, type: string): Promise<void> => {
		const r = await fetch(url, { method: 'PUT', headers: { 'content-type': type }, body: new Uint8Array(body) });
		if (r.status !== 201)
			throw new Error(`${url}: ${r.status} ${await r.text()}`);
	};
	for (const hex of fs.readdirSync(at)) {
		const begun = await fetch(`${base}/v2/${name}/blobs/uploads/`, { method: 'POST' });
		const to = new URL(begun.headers.get('location')!, base);
		to.searchParams.set('digest', `sha256:${hex}`);
		await put(to.href, fs.readFileSync(path.join(at, hex)), 'application/octet-stream');
	}
	for (const m of JSON.parse(fs.readFileSync(path.join(layout, 'index.json'), 'utf8')).manifests) {
		const tag = m.annotations['org.opencontainers.image.ref.name'] as string;
		await put(`${base}/v2/${name}/manifests/${tag.includes(':') ? 'latest' : tag}`, fs.readFileSync(path.join(at, m.digest.slice(7))), m.mediaType);
	}
}

type Held = { res: ServerResponse; at: number; drip: NodeJS.Timeout };

export class Downloads {
	readonly registry = new Registry();
	image!: Image;
	private held: Held[] = [];
	private states: string[] = [];

	/** WHOLE: the image is what an export of base makes. */
	async open(whole = false): Promise<void> {
		const { blobs, manifest } = slim();
		this.image = whole ? readLayout(await exported('base')) : asSent(blobs, manifest);
		await this.registry.open();
		this.registry.add(`${FOLDER}/base`, this.image);
	}
	close(): void {
		this.registry.close();
	}
	get source(): string {
		return `${this.registry.host}/${FOLDER}`;
	}
	/** For a product that has no image yet. */
	env(more: Record<string, string> = {}): Record<string, string> {
		const state = scratchInMemory('state');
		this.states.push(state);
		return { SANDBOX_STATE_DIR: state, SANDBOX_IMAGE: 'base', SANDBOX_IMAGE_SOURCE: this.source, ...more };
	}
	get layer(): Buffer {
		return this.image.layers[0]!;
	}
	/** From now on half of the layer comes, then a byte now and then, and the rest when letGo() is called. */
	hold(): void {
		const url = `/v2/${FOLDER}/base/blobs/${sha256(this.layer)}`;
		const half = this.layer.length >> 1;
		this.registry.lie = (req, res) => {
			if (req.url !== url || req.headers.range)
				return false;
			res.writeHead(200, { 'content-length': this.layer.length });
			res.write(this.layer.subarray(0, half));
			const held: Held = { res, at: half, drip: setInterval(() => res.destroyed || res.write(this.layer.subarray(held.at, ++held.at)), 100) };
			this.held.push(held);
			return true;
		};
	}
	letGo(): void {
		this.registry.lie = () => false;
		for (const { res, at, drip } of this.held.splice(0)) {
			clearInterval(drip);
			res.end(this.layer.subarray(at));
		}
	}
	/** How often the layer was asked for. */
	get asked(): number {
		return this.registry.requests.filter((r) => r.url.endsWith(sha256(this.layer))).length;
	}
	clear(): void {
		this.letGo();
		this.registry.requests.length = 0;
	}
	/** The end of a case: with the folders of env(). */
	over(): void {
		this.clear();
		for (const state of this.states.splice(0))
			fs.rmSync(state, { recursive: true, force: true });
	}
}

/** What the store of images has, but for its lock. */
export function images(env: Record<string, string>): string[] {
	const store = path.join(env.SANDBOX_STATE_DIR!, 'images');
	return fs.existsSync(store) ? fs.readdirSync(store).filter((n) => n !== '.lock').sort() : [];
}

/** Bytes that an interrupted download has kept, or one that goes on has so far. */
export function keptBytes(env: Record<string, string>): number {
	const at = path.join(env.SANDBOX_STATE_DIR!, 'images/.fetch/blobs/sha256');
	return fs.existsSync(at) ? fs.readdirSync(at).reduce((n, f) => n + fs.statSync(path.join(at, f)).size, 0) : 0;
}
