// SPDX-License-Identifier: Apache-2.0
// What a case is, and what it may look at from outside.

import * as fs from 'node:fs';
import * as path from 'node:path';
import { top } from '../../lib/env.ts';
import type { Json, Session } from '../../lib/session.ts';
import type { Served } from './served.ts';

/** How the message of a failure begins when an attack got through. */
export const WORKED = 'attempts that worked';

export interface Outside {
	session: Session; // the server under attack
	id: string; // of the sandbox
	mark: string; // in the command lines of what the case starts
	stateDir: string; // on the host
	build: string; // folder of the build, with the probes
	enforced: string[]; // limits that hold here, in doctor's words
	/** A server over HTTP with two users; one for all cases (served.ts). */
	served: () => Promise<Served>;
	/** Another one, where sandboxes may have a root user; SETTINGS: besides. */
	rooted: (settings?: Record<string, string>) => Promise<Served>;
	env: Record<string, string | undefined>; // for further servers that a case starts
	/** What a further server of the case has logged: its long turns count as the case's. */
	logged: (text: string) => void;
	spoil?: (it: any) => unknown; // set by a planted twin: called with a client or a session of the case, whose answers or files it changes
	canary: string; // a file of the host's that nobody may touch
	residentBytes: () => number; // of the server
	/** Processes of the host whose command line holds the mark. */
	survivors: () => number[];
	/** A run in another sandbox, in milliseconds. */
	neighbourMs: () => Promise<number>;
}

/** How the run must end: an exit status, or one of the words. */
export type Ending = number | 'any' | 'timeout' | 'killed' | 'failed';

export interface Case {
	id: string; // row of the threat list and a letter: 17c
	attack: string;
	must: string;
	code: string; // after prelude.py; @MARK@ is replaced; "" = no run
	held?: number; // attempts that must be reported HELD; default 1
	ends?: Ending; // default 0
	needs?: string[]; // limits, in doctor's words, without which the case is skipped
	mounts?: boolean; // it mounts something, which only root can
	skip?: string; // why it cannot run on this machine
	/** The case is run once more without these: walls of a build where they can be left out (src/base/walls.tbl.h), or settings that
	 * open the limit that it is about. Then it must be seen to fail. */
	without?: { walls?: string[]; settings?: Record<string, string> };
	/** Where no single wall can be left out and the judgement is another's than the program's: once more, and before the judgement the
	 * damage is done by the host, or the answer changed. Then the judgement must say so. */
	planted?: { what: string; by: (r: Json, o: Outside) => Promise<void> | void };
	/** Why there can be no twin; printed and counted. */
	noTwin?: string;
	/** Before it: uploads and the like. */
	before?: (o: Outside) => Promise<void>;
	/** While the program runs. */
	during?: (o: Outside) => Promise<void>;
	/** Once it has ended; R is the result object. */
	after?: (r: Json, o: Outside) => Promise<void> | void;
}

/** How it is seen that a case can fail; `bare`: its program reports at least one attempt as BROKEN without any wall (twins.ts). */
export function twinOf(c: Case): 'without' | 'planted' | 'none' | 'bare' {
	return c.without ? 'without' : c.planted ? 'planted' : c.noTwin ? 'none' : 'bare';
}

/** The walls that can be left out. */
export function wallNames(): string[] {
	const table = fs.readFileSync(path.join(top, 'src/base/walls.tbl.h'), 'utf8');
	return [...table.matchAll(/^W\(\w+, "(\w+)"/gm)].map((m) => m[1]!);
}

export function rowOf(c: Case): number {
	return Number(/^\d+/.exec(c.id)![0]);
}
