// SPDX-License-Identifier: Apache-2.0
// The types of what the server sends, from its description. Called by ./describe. Paths are left out: their limits are those of one server.

import * as fs from 'node:fs';
import openapiTS, { astToString } from 'openapi-typescript';

const TYPES = new URL('src/api/described.ts', import.meta.url);
const { openapi, info, components } = JSON.parse(fs.readFileSync(process.argv[2], 'utf8'));
const made = astToString(await openapiTS({ openapi, info, paths: {}, components: { schemas: components.schemas } }, { alphabetize: true }));
const text = `// SPDX-License-Identifier: Apache-2.0\n// Made by web/describe of /api/v1/openapi.json. Do not edit it.\n\n${made.replace(/ {4}/g, '\t')}`;
if (!process.argv.includes('--check')) {
	fs.writeFileSync(TYPES, text);
} else if (fs.readFileSync(TYPES, 'utf8') !== text) {
	console.error(`web/src/api/described.ts is not what this server sends: save its /api/v1/openapi.json as a file and run web/describe FILE`);
	process.exit(1);
}
