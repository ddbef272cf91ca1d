// SPDX-License-Identifier: Apache-2.0
// What a job is made of (README.md).

import type { Json } from '../../lib/session.ts';

export interface Seen {
	text: string;
	pictures: number;
	progress: string[];
}

export interface Step {
	tool: string;
	/** Arguments, or how they follow from the text of the step before. `session_id` is added. */
	args: Json | ((last: string) => Json);
	/** What the text has, in this order. */
	reads: (string | RegExp)[];
	never?: RegExp[];
	pictures?: number;
	most?: number;
	/** A message of progress that comes while the call runs. */
	progress?: RegExp;
}

export interface Job {
	name: string;
	steps: Step[];
}

type More = Partial<Step> & { stateful?: boolean; timeout_s?: number };

export const python = (code: string, reads: Step['reads'], more: More = {}): Step => {
	const { stateful, timeout_s, ...rest } = more;
	return { tool: 'sandbox_run_python', args: { code, ...(stateful ? { stateful } : {}), ...(timeout_s ? { timeout_s } : {}) }, reads, ...rest };
};
export const shell = (command: string, reads: Step['reads'], more: More = {}): Step => {
	const { timeout_s, ...rest } = more;
	return { tool: 'sandbox_run_shell', args: { command, ...(timeout_s ? { timeout_s } : {}) }, reads, ...rest };
};
export const put = (path: string, content: string): Step => ({ tool: 'sandbox_write_file', args: { path: `/mnt/data/${path}`, content }, reads: [path], most: 600 });
