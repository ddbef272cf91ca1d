// SPDX-License-Identifier: Apache-2.0
// Made by web/describe of /api/v1/openapi.json. Do not edit it.

export type paths = Record<string, never>;
export type webhooks = Record<string, never>;
export interface components {
	schemas: {
		Anything: Record<string, never>;
		AuditRow: {
			action: string;
			actor: string;
			/** Format: date-time */
			at: string | null;
			count: number;
			detail: string;
			id: number;
			object: string;
			peer: string;
			result: string;
		};
		AuditRows: {
			rows: components["schemas"]["AuditRow"][];
		};
		Branch: {
			duration_ms?: number;
			error?: string;
			exit_code?: number;
			message?: string;
			name: string;
			reason?: string;
			/** @enum {unknown} */
			state: "kept" | "fresh" | "lost" | "unchanged";
			stderr?: string;
			stdout?: string;
			value?: string;
		};
		Branches: {
			branches: components["schemas"]["Branch"][];
		};
		Cell: {
			asked_by: {
				how: string;
				name: string;
			};
			code: string;
			code_cut: boolean;
			context?: string;
			cpu_ms?: number;
			cwd?: string;
			duration_ms?: number;
			ended_cwd?: string;
			error?: string | null;
			exit_code?: number;
			files: {
				kept: boolean;
				name: string;
				size: number;
			}[];
			gone?: string[];
			image?: string;
			kind: string;
			/** @enum {unknown} */
			language?: "javascript" | "typescript";
			number?: number;
			owner: string;
			peak_bytes?: number;
			place?: string;
			reason?: string;
			results?: {
				end: number;
				file?: string;
				/** @enum {unknown} */
				kind: "display" | "result" | "clear";
				left_out: {
					bytes: number;
					type: string;
				}[];
				offset: number;
				types: string[];
			}[];
			run: string;
			sandbox: string;
			sandbox_name?: string;
			seq: number | null;
			/** Format: date-time */
			started_at: string | null;
			/** @enum {unknown} */
			state?: "kept" | "unchanged" | "carried" | "lost";
			/** @enum {unknown} */
			status: "queued" | "running" | "done" | "failed";
			stderr: {
				cut: boolean;
				text: string;
				total: number;
			};
			stdout: {
				cut: boolean;
				text: string;
				total: number;
			};
			value: {
				cut: boolean;
				text: string;
				total: number;
			};
		};
		Cells: {
			cells: components["schemas"]["Cell"][];
			next: number | string | null;
		};
		Checkpoint: {
			age_s: number;
			by?: string | null;
			bytes: number;
			files: number;
			gone?: string[];
			name: string;
			not_saved?: string[];
			parent?: string | null;
			skipped?: number;
			/** @enum {unknown} */
			state: "kept" | "fresh" | "lost";
		};
		Checkpoints: {
			checkpoints: components["schemas"]["Checkpoint"][];
		};
		Context: {
			name: string;
			runs: number;
		};
		Contexts: {
			contexts: components["schemas"]["Context"][];
		};
		Entry: {
			/** Format: date-time */
			modified_at: string;
			name: string;
			size: number;
			/** @enum {unknown} */
			type: "file" | "folder" | "link" | "other";
		};
		Figures: {
			at: number[];
			step_s: number;
		};
		Files: {
			files: components["schemas"]["Entry"][];
		};
		Fleet: {
			workers: components["schemas"]["FleetWorker"][];
		};
		FleetWorker: {
			address: string;
			epoch?: string;
			id?: string;
			listed: boolean;
			name?: string;
			requests?: number;
			sandboxes?: number;
			sandboxes_max?: number;
			/** Format: date-time */
			since: string;
			/** @enum {unknown} */
			state: "ready" | "not_ready" | "draining" | "unreachable" | "lost" | "refused" | "unknown";
			version?: string;
		};
		Fork: {
			bytes: number;
			files: number;
			forked_from: string;
			id: string;
			skipped?: number;
		};
		Image: {
			built_at: string;
			bytes: number;
			default: boolean;
			description: string;
			name: string;
			of_sandbox: boolean;
			packages: number;
			python: string;
		};
		ImageBuild: {
			/** Format: date-time */
			began_at: string;
			dropped: number;
			/** Format: date-time */
			ended_at: string | null;
			lines: string[];
			name: string;
			reason: string;
			/** @enum {unknown} */
			state: "building" | "downloading" | "removing" | "stopping" | "done" | "failed" | "cancelled";
			/** @enum {unknown} */
			what: "build" | "download" | "change" | "remove";
		};
		ImageDefinition: {
			description: string;
			name: string;
		};
		Images: {
			build: null | components["schemas"]["ImageBuild"];
			definitions: components["schemas"]["ImageDefinition"][];
			images: components["schemas"]["Image"][];
			of_sandboxes: boolean;
			why_not: string;
		};
		Invitation: {
			/** Format: date-time */
			created_at?: string | null;
			/** Format: date-time */
			expires_at: string | null;
			id: string;
			note?: string;
			/** @enum {unknown} */
			role: "user" | "admin";
		};
		Invitations: {
			invitations: components["schemas"]["Invitation"][];
		};
		Key: {
			/** Format: date-time */
			created_at?: string | null;
			/** Format: date-time */
			expires_at?: string | null;
			hint?: string;
			id: string;
			name?: string;
			profile?: string;
			/** @enum {unknown} */
			scope: "full" | "read" | "admin";
			/** Format: date-time */
			used_at?: string | null;
			user: string;
		};
		Keys: {
			keys: components["schemas"]["Key"][];
		};
		Me: {
			admin: boolean;
			budgets: {
				[key: string]: {
					max: number;
					used: number;
				};
			};
			/** @enum {unknown} */
			how: "open" | "server_key" | "key" | "token" | "cookie";
			id: string;
			name: string;
			read_only: boolean;
		};
		Names: {
			end: number;
			items: {
				label: string;
				type: string;
			}[];
			start: number;
		};
		NewInvitation: {
			/** Format: date-time */
			created_at?: string | null;
			/** Format: date-time */
			expires_at: string | null;
			id: string;
			invitation: string;
			note?: string;
			/** @enum {unknown} */
			role: "user" | "admin";
		};
		NewKey: {
			/** Format: date-time */
			created_at?: string | null;
			/** Format: date-time */
			expires_at?: string | null;
			hint?: string;
			id: string;
			key: string;
			name?: string;
			profile?: string;
			/** @enum {unknown} */
			scope: "full" | "read" | "admin";
			/** Format: date-time */
			used_at?: string | null;
			user: string;
		};
		Notebook: {
			cells: components["schemas"]["Cell"][];
			live: boolean;
			more: boolean;
			sandbox: string;
		};
		NotebookRow: {
			bytes: number;
			cells: number;
			/** Format: date-time */
			first_at: string | null;
			image?: string;
			/** Format: date-time */
			last_at: string | null;
			last_code?: string;
			live: boolean;
			name?: string;
			owner?: string;
			sandbox: string;
			seq?: number;
		};
		Notebooks: {
			next: number | string | null;
			notebooks: components["schemas"]["NotebookRow"][];
		};
		Package: {
			from_image: boolean;
			name: string;
			version: string;
		};
		PackageEntry: {
			bytes?: number;
			name: string;
			summary?: string;
			total?: number;
			version?: string;
			versions: string[];
			why?: string;
		};
		Packages: {
			packages: components["schemas"]["Package"][];
		};
		PackageStatus: {
			complete: boolean;
			elapsed_ms?: number;
			/** Format: date-time */
			ended_at?: string | null;
			installed?: string[];
			message: string;
			packages: string;
			/** Format: date-time */
			started_at?: string | null;
			/** @enum {unknown} */
			status: "installing" | "success" | "failed" | "not_found" | "error";
			stderr?: string;
		};
		Path: {
			path: string;
		};
		Port: {
			path: string;
			pid?: number;
			port: number;
			program?: string;
		};
		PortAddress: {
			/** Format: date-time */
			expires_at: string | null;
			url: string;
		};
		Ports: {
			ports: components["schemas"]["Port"][];
		};
		Problem: {
			code: string;
			detail: string;
			hint?: string;
			member?: string;
			sessions?: Record<string, never>[];
			status: number;
			title: string;
			type: string;
		};
		Process: {
			command: string;
			cpu_ms?: number;
			duration_ms: number;
			error?: string;
			exit_code?: number;
			id: string;
			input: boolean;
			killed?: number;
			message?: string;
			name?: string;
			peak_bytes?: number;
			reason?: string;
			/** Format: date-time */
			started_at: string | null;
			/** @enum {unknown} */
			state: "running" | "ended";
			stderr?: {
				from: number;
				next: number;
				text: string;
			};
			stderr_bytes: number;
			stdout?: {
				from: number;
				next: number;
				text: string;
			};
			stdout_bytes: number;
			terminal?: {
				columns: number;
				rows: number;
			};
		};
		Processes: {
			processes: components["schemas"]["Process"][];
		};
		Result: {
			data: {
				[key: string]: string;
			};
			end: number;
			file?: string;
			/** @enum {unknown} */
			kind: "display" | "result" | "clear";
			left_out: {
				bytes: number;
				type: string;
			}[];
			offset: number;
		};
		Results: components["schemas"]["Result"][];
		Run: {
			artifacts?: {
				name: string;
				size: number;
			}[];
			artifacts_more?: boolean;
			context?: string;
			cpu_ms?: number;
			duration_ms?: number;
			ended_cwd?: string;
			error?: string;
			exit_code?: number;
			gone?: string[];
			hint?: string;
			id: string;
			message?: string;
			peak_bytes?: number;
			reason?: string;
			results?: components["schemas"]["Results"];
			sandbox: string;
			/** @enum {unknown} */
			state?: "kept" | "unchanged" | "carried" | "lost";
			/** @enum {unknown} */
			status: "running" | "done" | "failed";
			stderr?: string;
			stderr_file?: {
				complete: boolean;
				path: string;
				size: number;
			};
			stderr_truncated?: boolean;
			stdout?: string;
			stdout_file?: {
				complete: boolean;
				path: string;
				size: number;
			};
			stdout_truncated?: boolean;
			value?: string;
			value_file?: {
				complete: boolean;
				path: string;
				size: number;
			};
			value_truncated?: boolean;
		};
		RunRow: Record<string, never>;
		RunRows: {
			runs: components["schemas"]["RunRow"][];
		};
		Sandbox: {
			age_s: number;
			busy: boolean;
			domains?: string[];
			env: string[];
			host_disk_full?: boolean;
			id: string;
			idle_s?: number;
			image: string;
			keepable?: boolean;
			/** @enum {unknown} */
			kind: "session" | "stored";
			labels: {
				[key: string]: string;
			};
			level: string;
			limits: {
				cpus: number;
				disk_mb: number;
				memory_mb: number;
				processes: number;
				timeout_s?: number;
				ttl_s: number;
			};
			name: string;
			/** @enum {unknown} */
			network: "none" | "packages" | "allowlist" | "open";
			owner: string;
			parent?: string;
			public?: boolean;
			root?: boolean;
			runs?: number;
			/** @enum {unknown} */
			state: "active" | "stored";
			usage?: components["schemas"]["Usage"];
			workdir?: string;
		};
		Sandboxes: {
			sandboxes: components["schemas"]["Sandbox"][];
		};
		Server: {
			engine: string;
			profile: string;
			uptime_s: number;
			version: string;
			worker?: string;
		};
		Session: {
			base: string;
			/** @enum {unknown} */
			history: "on" | "code" | "off";
			how: string | null;
			loopback: boolean;
			me: null | components["schemas"]["Me"];
			methods: string[];
			password_min: number;
			profile: string;
			/** @enum {unknown} */
			registration: "open" | "invitation" | "off";
			required: boolean;
			signed_in: boolean;
			version: string;
		};
		Stats: {
			http_answers: number;
			output_bytes: number;
			sandboxes: number;
		};
		Table: {
			columns: {
				name: string;
				type: string;
			}[];
			encoding?: string;
			kind: string;
			offset: number;
			rows: unknown[][];
			sheets?: string[];
			sure?: number;
			total: number | null;
		};
		Terminals: {
			terminals: components["schemas"]["Process"][];
		};
		Usage: {
			cpu_ms: number;
			disk_bytes: number;
			memory_bytes: number;
			pids: number;
			series?: {
				at_ms: number[];
				cpu_ms: number[];
				disk_bytes: number[];
				memory_bytes: number[];
			};
		};
		User: {
			active: boolean;
			/** Format: date-time */
			created_at: string | null;
			email: string;
			id: string;
			max_cpu_s_per_day?: number;
			max_disk_bytes?: number;
			max_runs_per_minute?: number;
			max_sandboxes?: number;
			name: string;
			/** @enum {unknown} */
			role: "user" | "admin";
		};
		Users: {
			users: components["schemas"]["User"][];
		};
		WorkspaceFile: {
			path: string;
			size: number;
		};
		Written: {
			files: components["schemas"]["WorkspaceFile"][];
		};
	};
	responses: never;
	parameters: never;
	requestBodies: never;
	headers: never;
	pathItems: never;
}
export type $defs = Record<string, never>;
export type operations = Record<string, never>;
