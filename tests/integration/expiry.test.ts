// SPDX-License-Identifier: Apache-2.0
// A11: sessions that nobody uses are closed by the sweep. It waits a minute, the shortest interval that there is.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { isError } from '../lib/expect.ts';
import { using, wires } from '../lib/session.ts';
import { until } from '../lib/wait.ts';

describe('A11 idle sessions', { concurrency: 2 }, () => {
	for (const wire of wires) {
		it(`(slow) an idle session is closed by the sweep, a used one is kept (${wire})`, { timeout: 200_000 }, () =>
			using(wire, { env: { SANDBOX_SESSION_TTL_M: '0', SANDBOX_CLEANUP_INTERVAL_M: '1' } }, async (s) => {
				await s.ok('open("f", "w").close()', 'idle');
				// A run that lasts over the sweep keeps its session: it is deferred, not killed.
				const busy = s.run('import time, os\nopen("f", "w").close()\nt = time.time()\nwhile not os.path.exists("go") and time.time() - t < 150: time.sleep(0.05)\nprint("survived")', 'busy');
				await until('the sweep', async () =>
					(await s.call('sandbox_close_session', { session_id: 'probe' })).error === 'session_not_found' &&
					s.logLines().some((l) => /idle/.test(l) && /session_ttl_expired/.test(l)), 100_000);
				isError(await s.call('sandbox_read_artifact', { session_id: 'idle', path: '/mnt/data/f' }), 'session_not_found');
				await s.upload('go', 'x', 'busy');
				const r = await busy;
				assert.equal(r.stdout, 'survived\n');
			}));
	}
});
