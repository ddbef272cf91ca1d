// SPDX-License-Identifier: Apache-2.0

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isPlainPath, isWebAddress } from '../src/pure/address.ts';

test('paths that a browser would change are none', () => {
	for (const path of ['/sandboxes/../users/1', '/sandboxes/..', '/runs/.', '/runs/%2e%2E/keys/1', '/runs/.%2e/keys', '/runs\\..\\keys', '/runs/.\t./keys', '/runs/.. ', '/runs/1?owner=2', '/runs/1#x'])
		assert.equal(isPlainPath(path), false, path);
	for (const path of ['/sandboxes', '/sandboxes/a.b', '/sandboxes/1/files/.env', '/sandboxes/1/files/..a/%23%3F%5C%20', '/sandboxes/1/files/%252e%252e', '/users/\u00e4'])
		assert.equal(isPlainPath(path), true, path);
	assert.equal(new URL('runs/%2e%2E/keys', 'http://x/').pathname, '/keys'); // why this is
});

test('only addresses of the web are opened', () => {
	for (const address of ['javascript:alert(1)', 'data:text/html,x', 'blob:http://x/1', '/p/1', ''])
		assert.equal(isWebAddress(address), false, address);
	assert.equal(isWebAddress('https://8000-x.ports.example.org/?a=b'), true);
});
