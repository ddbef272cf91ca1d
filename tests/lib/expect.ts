// SPDX-License-Identifier: Apache-2.0
// Shapes of the first family's results: exact keys in the contract's order, patterns for what changes.

import assert from 'node:assert/strict';
import type { Json } from './session.ts';

export const sessionIdPattern = /^sess_[0-9a-f]{12}$/;
export const runIdPattern = /^run_\d{8}T\d{6}Z_[0-9a-f]{4}$/;

export function hasKeys(o: Json, keys: string[]): void {
	assert.deepEqual(Object.keys(o), keys);
}

/** The contract's keys, and `reason`, the one that this project adds: why the run ended. */
export const runKeys = ['session_id', 'run_id', 'exit_code', 'stdout', 'stderr', 'stdout_truncated', 'stderr_truncated',
	'artifacts', 'duration_ms', 'reason'];
export const reasons = ['exited', 'signaled', 'timeout', 'oom', 'output_limit', 'disk_limit', 'cancelled'];
export const artifactKeys = ['path', 'filename', 'size_bytes', 'mime_type', 'download_url'];
export const errorKeys = ['error', 'message', 'size_bytes', 'download_url'];
export const readKeys = ['path', 'filename', 'mime_type', 'size_bytes', 'content_base64'];

export function isRun(r: Json): void {
	hasKeys(r, runKeys);
	assert.match(r.run_id, runIdPattern);
	assert.equal(typeof r.session_id, 'string');
	assert.ok(Number.isInteger(r.exit_code));
	assert.equal(typeof r.stdout, 'string');
	assert.equal(typeof r.stderr, 'string');
	assert.equal(typeof r.stdout_truncated, 'boolean');
	assert.equal(typeof r.stderr_truncated, 'boolean');
	assert.ok(Number.isInteger(r.duration_ms) && r.duration_ms >= 0);
	assert.ok(reasons.includes(r.reason), r.reason);
	r.artifacts.forEach(isArtifact);
}

export function isArtifact(a: Json): void {
	hasKeys(a, artifactKeys);
	assert.equal(a.path, `/mnt/data/${a.filename}`);
	assert.ok(Number.isInteger(a.size_bytes) && a.size_bytes >= 0);
	assert.match(a.mime_type, /^[a-z]+\/[a-z0-9.+-]+$/);
	assert.match(a.download_url, /^http:\/\/localhost:\d+\/files\/[A-Za-z0-9_-]+\/[^/]+$/);
}

/** A business error: exact keys, this code, this message (text or pattern), and nulls where nothing else is said. */
export function isError(r: Json, code: string, message?: string | RegExp, sizeBytes: number | null = null): void {
	assert.equal(r.error, code, JSON.stringify(r));
	hasKeys(r, errorKeys);
	if (typeof message === 'string')
		assert.equal(r.message, message);
	else if (message)
		assert.match(r.message, message);
	assert.equal(r.size_bytes, sizeBytes);
	assert.equal(r.download_url, null);
}
