// SPDX-License-Identifier: Apache-2.0
// Plays the jobs of jobs.ts as a model would and judges what the model reads (README.md).

import * as path from 'node:path';
import { Count } from '../../lib/count.ts';
import { binary } from '../../lib/env.ts';
import { ensureImages } from '../../lib/images.ts';
import { options } from '../../lib/options.ts';
import { play } from '../../lib/play.ts';
import { using, type Json, type Session, type ToolResult } from '../../lib/session.ts';
import { jobs } from './jobs.ts';
import type { Job, Seen, Step } from './step.ts';

const opt = options(`usage: tests/run jobs [options]
  --only NAME   one job (part of its name)
  --show        print everything that the model reads`, { only: { type: 'string' }, show: { type: 'boolean' } });
const count = new Count();

/** The longest answer that any step may give, in characters, unless it names its own bound. */
const MOST = 6000;

function seen(r: ToolResult, progress: string[]): Seen {
	const text = r.content.filter((c) => c.type === 'text').map((c) => c.text as string).join('\n');
	return { text, pictures: r.content.filter((c) => c.type === 'image').length, progress };
}

/** What is wrong with an answer; nothing if it is right. */
function judge(step: Step, s: Seen): string[] {
	const wrong: string[] = [];
	let at = 0;
	for (const wanted of step.reads) {
		const found = typeof wanted === 'string' ? s.text.indexOf(wanted, at) : s.text.slice(at).search(wanted);
		if (found < 0)
			wrong.push(`the model does not read ${wanted}${s.text.search(wanted) >= 0 ? ' (only before what precedes it)' : ''}`);
		else
			at = typeof wanted === 'string' ? found + wanted.length : at + found;
	}
	for (const unwanted of step.never ?? [])
		if (unwanted.test(s.text))
			wrong.push(`the model reads ${unwanted}`);
	if (s.pictures !== (step.pictures ?? 0))
		wrong.push(`${s.pictures} pictures, not ${step.pictures ?? 0}`);
	if (s.text.length > (step.most ?? MOST))
		wrong.push(`${s.text.length} characters, more than ${step.most ?? MOST}`);
	if (step.progress && !s.progress.some((p) => step.progress!.test(p)))
		wrong.push(`no progress like ${step.progress} among ${JSON.stringify(s.progress)}`);
	return wrong;
}

async function playJob(s: Session, job: Job): Promise<{ characters: number; wrong?: string }> {
	let session: string | undefined;
	let last = '';
	let characters = 0;
	for (const [i, step] of job.steps.entries()) {
		const args: Json = { ...(session ? { session_id: session } : {}), ...(typeof step.args === 'function' ? step.args(last) : step.args) };
		const progress: string[] = [];
		const r = await s.raw(step.tool, args, { onprogress: (p) => progress.push(p.message ?? '') });
		const read = seen(r, progress);
		session ??= /\b(sess_[0-9a-f]{12})\b/.exec(read.text)?.[1];
		if (opt.show)
			console.log(`--- ${job.name}, step ${i + 1}: ${step.tool}, ${read.pictures} pictures\n${read.text}`);
		const wrong = judge(step, read);
		if (wrong.length > 0)
			return { characters, wrong: `step ${i + 1} (${step.tool}): ${wrong.join('; ')}\n${read.text.slice(0, 4000).replace(/^/gm, '\t')}` };
		last = read.text;
		characters += read.text.length;
	}
	return { characters };
}

const missing = ensureImages(path.dirname(binary), 'science');
if (missing) {
	console.log(`FAILED  the image ${missing} could not be built\n0 passed, 1 failed, 0 skipped`);
	process.exit(1);
}
const chosen = jobs.filter((j) => !opt.only || j.name.includes(opt.only));
await using('stdio', { profile: 'full', env: { SANDBOX_MAX_SESSIONS: String(jobs.length + 20), SANDBOX_MEMORY_LIMIT: '1g' } }, async (s) => {
	await play(chosen.map((job) => ({
		name: job.name,
		run: async () => {
			const { characters, wrong } = await playJob(s, job);
			if (wrong)
				throw new Error(wrong);
			console.log(`        ${job.name}: ${job.steps.length} calls, ${characters} characters read (about ${Math.ceil(characters / 4)} tokens)`);
		},
	})), count);
});
count.close();
