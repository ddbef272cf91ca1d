// SPDX-License-Identifier: Apache-2.0
// Row 3 of the list, for what is counted: CPU time that no parent sees must count against the quota of the day.

import assert from 'node:assert/strict';
import { newStateDir } from '../../../lib/env.ts';
import { serve, type Json } from '../../../lib/session.ts';
import type { Case, Outside } from '../case.ts';

const BURNED_S = 2;
const burn = `
t = time.process_time()
while time.process_time() - t < ${BURNED_S}: pass`;

/** CPU milliseconds that the server says a run took, and the status of the next run with a quota of one second. */
async function cost(o: Outside, code: string, stateful: boolean): Promise<{ cpuMs: number; next: number }> {
	const { program, base } = await serve({ profile: 'full', env: { ...o.env, SANDBOX_STATE_DIR: newStateDir(), SANDBOX_USER_CPU_S_PER_DAY: '1', SANDBOX_EXEC_TIMEOUT_S: '30' } });
	const ask = async (path: string, body: Json): Promise<[number, Json]> => {
		const r = await fetch(`${base}/api/v1/${path}`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });
		return [r.status, await r.json() as Json];
	};
	try {
		const [, box] = await ask('sandboxes', {});
		const [, run] = await ask(`sandboxes/${box.id}/runs`, { code, stateful, wait: true });
		const [next] = await ask(`sandboxes/${box.id}/runs`, { code: 'pass', wait: true });
		return { cpuMs: run.cpu_ms, next };
	} finally {
		await program.end();
	}
}

function accountingCase(id: string, attack: string, stateful: boolean, code: string): Case {
	return {
		id, attack, must: 'the run and the quota of its user count it', needs: ['cpu'], without: { walls: ['cpu_counter'] }, code: '',
		after: async (_r, o) => {
			const c = await cost(o, code, stateful);
			assert.ok(c.cpuMs >= BURNED_S * 1000 && c.next === 429, `the run burnt ${BURNED_S} s and cost ${c.cpuMs} ms; the next one had status ${c.next}`);
		},
	};
}

export const accountingCases: Case[] = [
	accountingCase('3g', 'work in a child of a parent that ignores SIGCHLD', false, `
import os, signal, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
if os.fork() == 0:${burn.replaceAll('\n', '\n    ')}
    os._exit(0)
try:
    os.wait()
except ChildProcessError:
    pass`),
	accountingCase('3h', 'a stateful run that reports its own end, with no CPU time', true, `
import os, socket, struct, time${burn}
done = struct.pack("=IiiIIIQQ", 9, 0, 0, 0, 0, 0, 0, 0) # struct rt_run_done
for name in os.listdir("/proc/self/fd"):
    try:
        s = socket.socket(fileno=os.dup(int(name)))
        if s.type == socket.SOCK_SEQPACKET:
            s.send(done)
    except OSError:
        pass
time.sleep(1)`),
];
