// SPDX-License-Identifier: Apache-2.0
// Imported before all else: people install packages as plain users, so the product runs as one.

process.env.CAISSON_TEST_MODE ??= 'user';
