// SPDX-License-Identifier: Apache-2.0
// What the server sends (docs/rest.md): names for what described.ts has, and what no schema has.

import type { components } from './described.ts';

type Schemas = components['schemas'];

export type Me = Schemas['Me'];
export type Session = Schemas['Session'];
export type Usage = Schemas['Usage'];
export type Process = Schemas['Process'];
export type Port = Schemas['Port'];
export type PortAddress = Schemas['PortAddress'];
export type Checkpoint = Schemas['Checkpoint'];
export type FileEntry = Schemas['Entry'];
export type Completion = Schemas['Names'];
export type Result = Schemas['Result'];
export type Text = NonNullable<Schemas['Cell']['stdout']>;
export type RunFile = Schemas['Cell']['files'][number];

export type Sandbox = Schemas['Sandbox'] & {
	seen_at?: number; // of this page, ms: when age_s and idle_s were true
};

export type Cell = Schemas['Cell'];
export type Language = NonNullable<Cell['language']> | 'python' | 'bash'; // of what is written in a notebook

export interface Preview extends Omit<Schemas['Table'], 'rows'> {
	rows: (string | number | boolean | null)[][];
}

/** Data of events. */
export interface RunOutput { run: string; sandbox: string; stream?: 'stdout' | 'stderr' | 'value'; text?: string; offset?: number; cut?: boolean }
export interface PackageEvent { sandbox: string; packages: string[] | string; status: string; message?: string; done?: number; total?: number }
