// SPDX-License-Identifier: Apache-2.0
// What the server sends to the pages of management (docs/rest.md). Members that they do not use are left out.

import type { Cell } from './types.ts';

export interface NotebookRow {
	sandbox: string;
	owner: string;
	name?: string | null;
	image?: string | null;
	kind?: string | null;
	live: boolean;
	first_at: string;
	last_at: string;
	cells: number;
	bytes: number;
	last_code?: string | null;
}

export interface HistoryPage { cells: Cell[]; next: number | null }
export interface NotebookPage { notebooks: NotebookRow[]; next: string | number | null }

export interface Key {
	id: string;
	user: string;
	name?: string;
	hint?: string;
	scope: 'full' | 'read' | 'admin';
	profile?: string;
	created_at?: string | null;
	expires_at?: string | null;
	used_at?: string | null;
}

export interface NewKey extends Key { key: string }

export interface User {
	id: string;
	name: string;
	email: string;
	role: 'user' | 'admin';
	active: boolean;
	created_at: string | null;
	max_sandboxes?: number;
	max_cpu_s_per_day?: number;
	max_disk_bytes?: number;
	max_runs_per_minute?: number;
}

export interface Invitation {
	id: string;
	role: 'user' | 'admin';
	note?: string;
	created_at?: string | null;
	expires_at?: string | null;
}

export interface AuditRow {
	id: number;
	at: string | null;
	actor: string;
	action: string;
	object: string;
	result: string;
	detail: string;
	peer: string;
}

export interface ServerImage {
	name: string;
	default?: boolean;
	bytes?: number | null;
	built_at?: string | null;
	python?: string | null;
	packages?: number | null;
}

export interface ImageBuild {
	name: string;
	state: 'building' | 'stopping' | 'done' | 'failed' | 'cancelled';
	began_at: string;
	ended_at: string | null;
	reason: string;
	dropped: number;
	lines: string[];
}

export interface Images {
	images: ServerImage[];
	definitions: { name: string; description: string }[];
	why_not: string;
	build: ImageBuild | null;
}

export interface Setting {
	name: string;
	value: string | number | boolean | null;
	from: string;
	secret?: boolean;
	help?: string;
}

export interface DoctorRow {
	id: string;
	state: 'ok' | 'note' | 'weak' | 'missing';
	title: string;
	text?: string;
	mend?: string;
}

export interface Server {
	version: string;
	uptime_s: number;
	profile: string;
	engine: string;
	pool?: { ready: number; claimed: number; cold: number };
	images?: ServerImage[];
	settings?: Setting[];
	doctor?: DoctorRow[];
}

export interface Figures {
	step_s: number;
	at: number[];
	series: Record<string, (number | null)[]>;
}
