// SPDX-License-Identifier: Apache-2.0
// Reporter for node:test: one JSON line per case, for runner.ts to count. Suites are not cases.

import type { Outcome } from './count.ts';

interface Data {
	name: string;
	nesting: number;
	file?: string;
	skip?: string | boolean;
	message?: string;
	details?: { type?: string; duration_ms?: number; error?: { message?: string; stack?: string; cause?: unknown } };
}

export interface Row {
	name: string;
	outcome: Outcome;
	ms: number;
	why?: string;
	/** The name in the form that --test-name-pattern is compared with; undefined for what is no case. */
	full?: string;
	/** t.diagnostic('budget: …'): what was used of a budget, shown also when the case passes. */
	budget?: string;
}

function reason(error: NonNullable<Data['details']>['error']): string {
	const cause = error?.cause as { stack?: string; message?: string } | string | undefined;
	if (typeof cause === 'string')
		return cause;
	return cause?.stack ?? cause?.message ?? error?.stack ?? error?.message ?? 'no reason given';
}

export default async function* report(events: AsyncIterable<{ type: string; data: Data }>): AsyncGenerator<string> {
	const path: string[] = []; // names of the suites around the case that starts next
	for await (const { type, data } of events) {
		if (type === 'test:start') {
			path.length = data.nesting;
			path[data.nesting] = data.name;
		}
		if (type === 'test:diagnostic' && data.message?.startsWith('budget: ')) {
			const row: Row = { name: path.slice(0, data.nesting + 1).join(' › '), outcome: 'passed', ms: 0, budget: data.message.slice('budget: '.length) };
			yield JSON.stringify(row) + '\n';
		}
		if (type !== 'test:pass' && type !== 'test:fail')
			continue;
		const suite = data.details?.type === 'suite';
		const ownFailure = suite && type === 'test:fail' && !/subtests? failed/.test(reason(data.details?.error));
		if (suite && !ownFailure && !data.skip)
			continue;
		const row: Row = {
			name: [...path.slice(0, data.nesting), data.name].join(' › '),
			outcome: typeof data.skip === 'string' ? 'skipped' : data.skip ? 'failed' : type === 'test:pass' ? 'passed' : 'failed',
			ms: Math.round(data.details?.duration_ms ?? 0),
			full: suite ? undefined : [...path.slice(0, data.nesting), data.name].join(' '),
		};
		if (data.skip)
			row.why = typeof data.skip === 'string' ? data.skip : 'it skipped itself and gave no reason';
		else if (row.outcome === 'failed')
			row.why = reason(data.details?.error);
		yield JSON.stringify(row) + '\n';
	}
}
