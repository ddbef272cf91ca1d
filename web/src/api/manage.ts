// SPDX-License-Identifier: Apache-2.0
// What the server sends to the pages of management (docs/rest.md). Members that they do not use are left out.

import type { components } from './described.ts';

type Schemas = components['schemas'];

export type NotebookRow = Schemas['NotebookRow'];
export type HistoryPage = Schemas['Cells'];
export type NotebookPage = Schemas['Notebooks'];
export type Key = Schemas['Key'];
export type NewKey = Schemas['NewKey'];
export type User = Schemas['User'];
export type Invitation = Schemas['Invitation'];
export type AuditRow = Schemas['AuditRow'];
export type ImageBuild = Schemas['ImageBuild'];
export type Images = Schemas['Images'];

export interface ServerImage {
	name: string;
	default?: boolean;
	bytes?: number | null;
	built_at?: string | null;
	python?: string | null;
	packages?: number | null;
	of_sandbox?: boolean;
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
	worker?: string; // of a fleet: the one that all of this is about
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
