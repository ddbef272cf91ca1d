// SPDX-License-Identifier: Apache-2.0
// What every case gets: a browser window that fails the case for what no case may do (a request to another host, a breach of the
// content policy, an error that nobody caught), and a server.

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { createRequire } from 'node:module';
import { chromium, type Browser, type BrowserContext, type BrowserContextOptions, type Page } from 'playwright-core';
import { top } from '../../lib/env.ts';

export interface Case {
	name: string;
	limitMs?: number; // after which it is taken to hang; more than the usual
	run(w: World): Promise<void>;
}

const pictures = path.join(top, 'build/ui');
const require = createRequire(import.meta.url);
const axePath = require.resolve('axe-core/axe.min.js');
export const STEP_MS = 20_000;

/** Debian's Chromium, with or without a window system. */
function browserPath(): string {
	const found = ['/usr/bin/chromium-headless-shell', '/usr/bin/chromium'].find((p) => fs.existsSync(p));
	assert.ok(found, 'chromium is missing: run make setup (tools/packages.txt)');
	return found;
}

/** WITHOUT: arguments that are usually given and are not here. */
export async function launch(without: string[] = []): Promise<Browser> {
	fs.mkdirSync(pictures, { recursive: true });
	// Names do not resolve: a request that slips through the check below fails too.
	return chromium.launch({ executablePath: browserPath(), timeout: 60_000, ignoreDefaultArgs: without, args: ['--no-sandbox', '--disable-gpu', '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE *.localhost, EXCLUDE 127.0.0.1'] });
}

const isOurs = (url: string): boolean => /^(data|blob|about|chrome-error|file):/.test(url) || ['127.0.0.1', 'localhost'].includes(new URL(url).hostname);

export class World {
	private readonly browser: Browser;
	private readonly contexts: BrowserContext[] = [];
	private readonly endings: (() => Promise<unknown>)[] = [];
	private readonly faults: string[] = [];
	/** Console errors that a case expects, such as those of refused requests. */
	readonly expected: RegExp[] = [/^Failed to load resource: /, /^Unrecognized Content-Security-Policy directive 'webrtc'\.$/];
	/** A hostile frame is at work: its own policy refuses what it tries, and the console says so. Requests still fail the case. */
	refusalsOfFrames = false;

	constructor(browser: Browser) {
		this.browser = browser;
	}

	/** A window of its own: cookies and storage are not shared with others. */
	async window(o: BrowserContextOptions = {}): Promise<Page> {
		const context = await this.browser.newContext({ viewport: { width: 1280, height: 860 }, reducedMotion: 'reduce', colorScheme: 'light', ...o });
		this.contexts.push(context);
		return this.tab(context);
	}

	/** One more tab of the window of PAGE, or of CONTEXT. */
	async tab(of: Page | BrowserContext): Promise<Page> {
		const page = await ('context' in of ? of.context() : of).newPage();
		page.setDefaultTimeout(STEP_MS);
		page.on('request', (r) => {
			// What a policy refuses is announced, too, but never sent.
			if (!isOurs(r.url()) && !this.refusalsOfFrames) this.faults.push(`a request to another host: ${r.url()}`);
		});
		page.on('response', (r) => {
			if (!isOurs(r.url())) this.faults.push(`an answer of another host: ${r.url()}`);
		});
		page.on('console', (m) => {
			const text = m.text();
			if (this.refusalsOfFrames && /\/frame\b|about:srcdoc|sandboxed|192\.0\.2\.1|Content Security Policy/.test(`${text} ${m.location().url}`)) return;
			if (/violates the following Content Security Policy|Content Security Policy of your site|Permissions policy violation/i.test(text)) this.faults.push(`the content policy was breached: ${text}`);
			else if (m.type() === 'error' && !this.expected.some((e) => e.test(text))) this.faults.push(`an error on the console: ${text}`);
		});
		page.on('pageerror', (e) => this.faults.push(`an error that nobody caught: ${e.stack ?? e.message}`));
		// Hostile texts call it. Frames have it too, so a script that runs in one is seen.
		await page.exposeFunction('caissonStruck', (where: string) => void this.faults.push(`a hostile text became a script: ${where}`));
		page.on('dialog', (d) => {
			this.faults.push(`a dialog: ${d.message()}`);
			void d.dismiss();
		});
		return page;
	}

	/** FN is called at the end of the case, whatever happened. */
	atEnd(fn: () => Promise<unknown>): void {
		this.endings.push(fn);
	}

	/** A world beside this one, for a twin: what happens in it does not fail this case. */
	beside(): World {
		const other = new World(this.browser);
		this.atEnd(() => other.end());
		return other;
	}

	/** What happened so far that must not happen; it is forgotten. */
	taken(): string[] {
		return this.faults.splice(0);
	}

	/** Fails if anything happened that must not happen. */
	check(): void {
		assert.deepEqual(this.taken(), []);
	}

	/** Keeps a picture of every page that is open. */
	async pictures(name: string): Promise<void> {
		for (const [i, p] of this.contexts.flatMap((c) => c.pages()).entries()) await picture(p, `${name}-${i + 1}`).catch(() => undefined);
	}

	async end(): Promise<void> {
		for (const c of this.contexts) await c.close();
		for (const fn of this.endings.reverse()) await fn();
	}
}

/** Keeps a picture of the page as build/ui/NAME.png. */
export async function picture(page: Page, name: string, fullPage = false): Promise<void> {
	await page.screenshot({ path: path.join(pictures, `${name}.png`), fullPage, animations: 'disabled', caret: 'hide' });
}

/** What axe-core finds on the page, in words. None is allowed. */
export async function accessible(page: Page, where: string, frame = page.mainFrame()): Promise<void> {
	// axe is evaluated, not loaded: the content policy of the page forbids scripts that are added.
	await frame.evaluate(fs.readFileSync(axePath, 'utf8'));
	const found = await frame.evaluate(async () => {
		const { violations } = await (globalThis as any).axe.run(document, { resultTypes: ['violations'], iframes: false, runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] });
		return violations.map((v: any) => `${v.id}: ${v.help}: ${v.nodes.slice(0, 4).map((n: any) => `${n.html.slice(0, 160)} (${n.any.concat(n.all)[0]?.message ?? ''})`).join(' | ')}`);
	});
	assert.deepEqual(found, [], `axe-core on ${where}`);
}
