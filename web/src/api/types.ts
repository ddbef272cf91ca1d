// SPDX-License-Identifier: Apache-2.0
// What the server sends (docs/rest.md). Members that the page does not use are left out.

export interface Me {
	id: string;
	name: string;
	how: string;
	admin: boolean;
	read_only: boolean;
	budgets?: Record<string, { used: number; max: number }>;
}

export interface Session {
	required: boolean;
	signed_in: boolean;
	how: string | null;
	methods: string[];
	registration: 'open' | 'invitation' | 'off';
	loopback: boolean;
	version: string;
	profile: string;
	base: string;
	history: 'on' | 'code' | 'off';
	password_min: number;
	me: Me | null;
}

export interface Usage {
	memory_bytes: number;
	cpu_ms: number;
	pids: number;
	disk_bytes: number;
	series?: { at_ms: number[]; memory_bytes: number[]; cpu_ms: number[]; disk_bytes: number[] }; // oldest first
}

export interface Sandbox {
	id: string;
	owner: string;
	kind: 'session' | 'stored';
	name?: string;
	state?: string;
	busy: boolean;
	age_s: number;
	idle_s?: number; // of active ones
	image: string;
	level: string;
	limits: { memory_mb: number; cpus: number; processes: number; disk_mb: number; ttl_s: number; timeout_s: number };
	env: string[];
	labels: Record<string, string>;
	network: string;
	domains?: string[];
	runs?: number;
	parent?: string;
	usage?: Usage;
	seen_at?: number; // of this page, ms: when age_s and idle_s were true
}

export interface Text {
	text: string;
	total: number;
	cut: boolean;
}

export interface RunFile {
	name: string;
	size: number;
	kept: boolean;
}

export interface Cell {
	seq: number | null;
	run: string;
	sandbox: string;
	sandbox_name?: string;
	owner?: string;
	status: 'queued' | 'running' | 'done' | 'failed';
	kind: 'code' | 'stateful' | 'command' | 'package';
	asked_by?: { how: string; name: string };
	code: string | null;
	code_cut?: boolean;
	started_at?: string;
	duration_ms?: number;
	cpu_ms?: number;
	peak_bytes?: number;
	reason?: string;
	exit_code?: number | null;
	stdout?: Text | null;
	stderr?: Text | null;
	value?: Text | null;
	files?: RunFile[];
	error?: string | null;
}

export interface Checkpoint {
	name: string;
	state: string;
	files: number;
	bytes: number;
	age_s: number;
	by?: string | null;
	parent?: string | null;
}

export interface FileEntry {
	name: string;
	type: string;
	size: number;
	modified_at: string;
}

export interface Preview {
	kind: string;
	columns: { name: string; type: string }[];
	rows: (string | number | boolean | null)[][];
	total: number | null;
	sheets?: string[];
	offset: number;
}

export interface Completion {
	start: number;
	end: number;
	items: { label: string; type: string }[];
}

/** Of the event stream: name of the event and its data. */
export interface Hello { epoch: string; seq: number; resumed: boolean }
export interface RunOutput { run: string; sandbox: string; stream?: 'stdout' | 'stderr' | 'value'; text?: string; offset?: number; cut?: boolean }
export interface PackageEvent { sandbox: string; packages: string[] | string; status: string; message?: string; done?: number; total?: number }
