// SPDX-License-Identifier: Apache-2.0
import type { Case } from '../case.ts';
import { clientCases } from './client.ts';
import { egressCases } from './egress.ts';
import { fileCases } from './files.ts';
import { hostCases } from './host.ts';
import { kernelCases } from './kernel.ts';
import { limitCases } from './limits.ts';
import { processCases } from './process.ts';
import { socketCases } from './sockets.ts';

/** The tables, by what is attacked. */
export const kinds: [string, Case[]][] = [
	['what others need: memory, CPU, disk, processes, tables', [...limitCases, ...socketCases]],
	['the kernel: system calls, /proc, namespaces, sockets, devices', kernelCases],
	['the server through files', fileCases],
	['the run: signals, survivors, streams, the warm interpreter', processCases],
	['the server as a client: HTTP, JSON-RPC, ids, settings', clientCases],
	['the network that is permitted, and packages', egressCases],
	['the host: archives, metadata services, secrets, engines', hostCases],
];

export const cases: Case[] = kinds.flatMap(([, list]) => list);
