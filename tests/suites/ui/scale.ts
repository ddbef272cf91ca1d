// SPDX-License-Identifier: Apache-2.0
// Long notebooks and long outputs: only what can be seen is in the document, frames stay short, and the reader's place is kept.
// And how long a printed line takes from the sandbox to the document. The figures are printed.

import assert from 'node:assert/strict';
import * as os from 'node:os';
import type { Page } from 'playwright-core';
import { until } from '../../lib/wait.ts';
import { type Case } from './case.ts';
import { python, server, words, type Server } from './server.ts';

const CELLS = 5000;
const LINES = 100_000;
const ROWS_MAX = 200; // rows or lines in the document at a time
const LONG_FRAME_MS = 50;
const TICKS = 40;

interface Frames { frames: number; long: number; longest: number; most: number }

const figure = (what: string): void => console.log(`figure  ${what} (load ${os.loadavg()[0]!.toFixed(1)})`);
const framesText = (f: Frames): string => `${f.long} of ${f.frames} frames over ${LONG_FRAME_MS} ms, the longest ${Math.round(f.longest)} ms, at most ${f.most} rows in the document`;

interface Row { seq: number; run: string; sandbox: string; status: string; kind: string; code: string; started_at: string; duration_ms: number; reason: string; exit_code: number; stdout: { text: string; total: number; cut: boolean } }

/** A cell as the server sends it. Code and output differ in length, so no height can be guessed. */
function cellOf(sandbox: string, seq: number, stdout = Array.from({ length: seq % 7 }, (_, i) => `line ${i} of ${seq}\n`).join('')): Row {
	const code = seq % 3 === 0 ? Array.from({ length: 60 }, (_, i) => `x${i} = ${i}`).join('\n') : `step(${seq})`;
	return { seq, run: `run_${seq}`, sandbox, status: 'done', kind: 'stateful', code, started_at: new Date(1.7e12 + seq * 1000).toISOString(), duration_ms: 3, reason: 'exited', exit_code: 0, stdout: { text: stdout, total: stdout.length, cut: false } };
}

/** The server, with a notebook that it answers in pages as it answers its own: CELLS runs would take minutes. Runs of the case itself are real. */
async function notebook(page: Page, s: Server, id: string, cell: (seq: number) => Row, count: number): Promise<void> {
	await page.route(`**/api/v1/notebooks/${id}?*`, (route) => {
		const query = new URL(route.request().url()).searchParams;
		const before = Number(query.get('before')) || count + 1;
		const first = Math.max(1, before - Number(query.get('limit')));
		return route.fulfill({ json: { cells: Array.from({ length: before - first }, (_, i) => cell(first + i)), more: first > 1, next: first } });
	});
	await page.goto(`${s.base}/#/sandboxes/${id}`);
}

/** Scrolls SELECTOR by STEP pixels a frame until its end, or for at most MAX frames. */
function scroll(page: Page, selector: string, rows: string, step: number, max: number): Promise<Frames> {
	return page.evaluate(({ selector, rows, step, max, long }) => new Promise<Frames>((resolve) => {
		const box = document.querySelector(selector)!;
		const seen: Frames = { frames: 0, long: 0, longest: 0, most: 0 };
		let last = performance.now();
		const frame = (now: number): void => {
			seen.frames++;
			seen.long += now - last > long ? 1 : 0;
			seen.longest = Math.max(seen.longest, now - last);
			seen.most = Math.max(seen.most, box.querySelectorAll(rows).length);
			last = now;
			const before = box.scrollTop;
			box.scrollTop += step;
			if (box.scrollTop === before || seen.frames >= max)
				resolve(seen);
			else
				requestAnimationFrame(frame);
		};
		requestAnimationFrame((now) => {
			last = now;
			requestAnimationFrame(frame);
		});
	}), { selector, rows, step, max, long: LONG_FRAME_MS });
}

interface Place { key: string; y: number; height: number }

/** The first row in the window, when two looks agree about it. */
function place(page: Page, key?: string): Promise<Place | null> {
	return page.evaluate((key) => new Promise<Place | null>((resolve) => {
		const look = (): Place | null => {
			const box = document.querySelector('.virtual')!;
			const window = box.getBoundingClientRect();
			for (const row of Array.from(box.querySelectorAll<HTMLElement>('[data-row]'))) {
				const r = row.getBoundingClientRect();
				if (key ? row.dataset['key'] === key : r.bottom > window.top + 1 && r.top < window.bottom)
					return { key: row.dataset['key']!, y: r.top, height: box.scrollHeight };
			}
			return null;
		};
		let last = '';
		const frame = (): void => {
			const now = look();
			if (JSON.stringify(now) === last)
				return resolve(now);
			last = JSON.stringify(now);
			requestAnimationFrame(() => requestAnimationFrame(frame));
		};
		frame();
	}), key);
}

async function kept(page: Page, before: Place, what: string): Promise<void> {
	const after = await place(page, before.key);
	assert.ok(after, `${what}: the row ${before.key} is still in the window`);
	assert.ok(Math.abs(after.y - before.y) <= 2, `${what}: the row ${before.key} moved from ${before.y} to ${after.y}`);
}

/** Scrolls to the beginning until all cells are loaded. After each page of older cells there must be rows in the window. */
async function loadAll(page: Page): Promise<number> {
	let pages = 0;
	for (; await page.locator('.notebook-more').count() > 0; pages++) {
		const height = await page.evaluate(() => {
			const box = document.querySelector('.virtual')!;
			box.scrollTop = 400;
			return box.scrollHeight;
		});
		await until('older cells', () => page.evaluate((h) => document.querySelector('.virtual')!.scrollHeight > h + 1000 || !document.querySelector('.notebook-more'), height));
		assert.ok(await place(page), 'rows are in the window while older ones come');
	}
	return pages;
}

/** From the beginning through at most MAX windows of the notebook; the document stays small. */
async function smooth(page: Page, max: number): Promise<Frames> {
	await page.evaluate(() => (document.querySelector('.virtual')!.scrollTop = 0));
	await place(page);
	const seen = await scroll(page, '.virtual', '[data-row]', 1500, max);
	assert.ok(seen.most <= ROWS_MAX, `${seen.most} rows in the document`);
	return seen;
}

export const scaleCases: Case[] = [
	{
		name: 'scale: a notebook of 5,000 cells scrolls, and keeps its place',
		limitMs: 300_000,
		async run(w) {
			const s = await server(w);
			const { id } = await s.rest('POST', '/sandboxes', { kind: 'stored', name: 'long' });
			const page = await w.window();
			await notebook(page, s, id, (seq) => cellOf(id, seq), CELLS);
			await page.locator(`[data-key="run_${CELLS}"]`).waitFor();
			// older cells come above: what is read stays where it is
			await page.evaluate(() => (document.querySelector('.virtual')!.scrollTop = 1200));
			const here = (await place(page))!;
			await page.evaluate(() => (document.querySelector('.virtual')!.scrollTop -= 400));
			await until('older cells', () => page.evaluate((h) => document.querySelector('.virtual')!.scrollHeight > h + 1000, here.height));
			await kept(page, { ...here, y: here.y + 400 }, 'older cells came');
			const pages = await loadAll(page);
			assert.ok(pages > CELLS / 100 - 5, `${pages} pages of older cells`);
			figure(`${CELLS} cells, scrolled from the first: ${framesText(await smooth(page, 600))}`);
			// a jump to rows whose heights nobody knows: rows are there at once, and they stay
			for (const part of [0.1, 0.55, 0.35, 0.8]) {
				await page.evaluate((part) => {
					const box = document.querySelector('.virtual')!;
					box.scrollTop = box.scrollHeight * part;
				}, part);
				const at = await place(page);
				assert.ok(at, `rows are in the window after a jump to ${part}`);
				await kept(page, at, `after a jump to ${part}`);
			}
			// a cell above grows: the reader's place stays
			const above = (): Promise<string | undefined> => page.evaluate(() => {
				const top = document.querySelector('.virtual')!.getBoundingClientRect().top;
				const button = Array.from(document.querySelectorAll<HTMLElement>('.virtual [data-row] button')).findLast((b) => /^Show all/.test(b.textContent ?? '') && b.closest('[data-row]')!.getBoundingClientRect().bottom < top);
				return button?.closest<HTMLElement>('[data-row]')?.dataset['key'];
			});
			let grower = await above();
			for (let i = 0; i < 30 && !grower; i++) { // where the jump ended depends on the height of the window
				await page.evaluate(() => new Promise((done) => {
					document.querySelector('.virtual')!.scrollTop -= 250;
					requestAnimationFrame(() => requestAnimationFrame(done));
				}));
				grower = await above();
			}
			const reading = (await place(page))!;
			assert.ok(grower, 'a cell above can grow, else the case shows nothing');
			await page.evaluate((key) => Array.from(document.querySelectorAll<HTMLElement>(`[data-key="${key}"] button`)).find((b) => /^Show all/.test(b.textContent ?? ''))!.click(), grower);
			await until('the cell above to grow', () => page.evaluate((key) => !/Show all/.test(document.querySelector(`[data-key="${key}"]`)?.textContent ?? ''), grower));
			await kept(page, reading, 'a cell above grew');
			// a new cell at the end: who is not there does not follow, who is there does
			const model = await s.client(w, 'claude-code');
			await python(model, 'print("new one")', id, { stateful: true });
			await kept(page, reading, 'a new cell came');
			assert.equal(await page.locator('.cell-out').getByText('new one').count(), 0);
			await page.getByRole('button', { name: 'To the newest' }).click();
			await page.locator('.cell-out').getByText('new one').waitFor();
			await python(model, 'print("newest")', id, { stateful: true });
			await page.locator('.cell-out').getByText('newest').waitFor();
			await until('the end is in the window', () => page.evaluate(() => {
				const box = document.querySelector('.virtual')!;
				return box.scrollHeight - box.scrollTop - box.clientHeight < 2;
			}));
		},
	},
	{
		name: 'scale: an output of 100,000 lines scrolls',
		async run(w) {
			const s = await server(w);
			const { id } = await s.rest('POST', '/sandboxes', { kind: 'stored', name: 'lines' });
			const page = await w.window();
			const text = Array.from({ length: LINES }, (_, i) => `\x1b[3${i % 8}mline ${i}\x1b[0m of many\n`).join('');
			await notebook(page, s, id, (seq) => cellOf(id, seq, text), 1);
			await page.locator('.output-window').waitFor();
			const seen = await scroll(page, '.output-window', '.line', 8000, 1000);
			figure(`${LINES} lines from the first to the last: ${framesText(seen)}`);
			await page.locator('.output-window').getByText(`line ${LINES - 1} of many`).waitFor();
			assert.ok(seen.most <= ROWS_MAX, `${seen.most} lines in the document`);
		},
	},
	{
		name: 'scale: a printed line is in the document within half a second',
		async run(w) {
			const s = await server(w);
			const page = await w.window();
			await s.rest('POST', '/sandboxes', { kind: 'stored', name: 'ticks' }).then(({ id }) => page.goto(`${s.base}/#/sandboxes/${id}`));
			const id = page.url().match(/#\/sandboxes\/([^/]+)/)![1]!;
			await page.getByRole('textbox', { name: 'Python code' }).waitFor();
			await page.evaluate(() => {
				const seen: Record<string, number> = {};
				Object.assign(globalThis, { ticksSeen: seen });
				new MutationObserver(() => {
					for (const out of Array.from(document.querySelectorAll('.cell-out')))
						for (const [, n, at] of out.textContent!.matchAll(/tick (\d+) (\d+)\./g))
							seen[n!] ??= Date.now() - Number(at);
				}).observe(document.body, { childList: true, characterData: true, subtree: true });
			});
			const model = await s.client(w, 'claude-code');
			// The pause is the work of the model's program: each line is a line of its own, not the end of a burst.
			const run = python(model, `import time\nfor i in range(${TICKS}):\n    print(f"tick {i} {int(time.time() * 1000)}.", flush=True)\n    time.sleep(0.1)`, id, { stateful: true });
			assert.match(words(await run), new RegExp(`tick ${TICKS - 1} `));
			const late = await until('all lines', async () => {
				const seen = await page.evaluate(() => Object.values((globalThis as unknown as { ticksSeen: Record<string, number> }).ticksSeen));
				return seen.length === TICKS && seen;
			});
			late.sort((a, b) => a - b);
			const p50 = late[TICKS / 2]!;
			figure(`from print() to the document: p50 ${p50} ms, max ${late[TICKS - 1]} ms of ${TICKS} lines`);
			assert.ok(p50 < 500, `half of the lines took longer than ${p50} ms`);
		},
	},
];
