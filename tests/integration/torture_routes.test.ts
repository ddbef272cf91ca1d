// SPDX-License-Identifier: Apache-2.0
// Failing allocations in all routes, and in other requests: rows of lib/torture-rows.ts.

import { allocationsFail } from '../lib/torture-rows.ts';

allocationsFail('routes');
