// SPDX-License-Identifier: Apache-2.0
import type { Case } from '../case.ts';
import { accountingCases } from './accounting.ts';
import { buildCases } from './builds.ts';
import { clientCases } from './client.ts';
import { onContainers } from './containers.ts';
import { diskCases } from './disks.ts';
import { egressCases } from './egress.ts';
import { faceCases } from './faces.ts';
import { fileCases } from './files.ts';
import { floodCases } from './floods.ts';
import { frameCases } from './frames.ts';
import { hostCases } from './host.ts';
import { kernelCases } from './kernel.ts';
import { limitCases } from './limits.ts';
import { maskCases } from './masks.ts';
import { portCases } from './ports.ts';
import { processCases } from './process.ts';
import { pullCases } from './pulls.ts';
import { rootCases } from './roots.ts';
import { socketCases } from './sockets.ts';
import { stayingCases } from './stays.ts';

/** The tables, by what is attacked. */
export const kinds: [string, Case[]][] = [
	['what others need: memory, CPU, disk, processes, tables', [...limitCases, ...socketCases, ...accountingCases, ...maskCases, ...diskCases]],
	['the kernel: system calls, /proc, namespaces, sockets, devices', kernelCases],
	['the server through files', fileCases],
	['the run: signals, survivors, streams, the warm interpreter', processCases],
	['the server as a client: HTTP, JSON-RPC, ids, settings', clientCases],
	['what stays: background processes, terminals, contexts, parallel runs, watches', [...stayingCases, ...floodCases]],
	['the root user of a sandbox', rootCases],
	['ports of sandboxes, and WebSockets', [...portCases, ...frameCases]],
	['faces of other systems, and public ports', faceCases],
	['the network that is permitted, and packages', egressCases],
	['the host: archives, metadata services, secrets, engines', hostCases],
	['images from a stranger\'s Dockerfile, and registries that lie to builds', [...buildCases, ...pullCases]],
];

export const cases: Case[] = kinds.flatMap(([, list]) => list);

/** All cases as they are on ENGINE. */
export function casesOn(engine: string): Case[] {
	return engine === 'native' ? cases : cases.map((c) => ({ ...c, ...onContainers[c.id] }));
}

/** C is another one where sandboxes are containers. */
export function differs(c: Case): boolean {
	return c.id in onContainers;
}

/** Why C does not run on ENGINE. */
export function notOn(engine: string, c: Case): string | undefined {
	const other = engine === 'native' ? undefined : onContainers[c.id];
	return other && Object.keys(other).length === 1 ? other.why : undefined;
}
