// SPDX-License-Identifier: Apache-2.0
// Failing allocations in all tools and routes that see packages: rows of lib/torture-rows.ts.

import { allocationsFail } from '../lib/torture-rows.ts';

allocationsFail('packages');
