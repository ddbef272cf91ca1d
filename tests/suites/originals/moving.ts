// SPDX-License-Identifier: Apache-2.0
// Makes docs/moving.md from the rows of this suite.

import type { Original, Row } from './row.ts';

const HEADS: Record<Original, string> = {
	first: `## From mcp-code-sandbox

Replace the command in the client's configuration. Sessions live in memory there and here, so there is nothing to carry over.

\`\`\`json
{"mcpServers": {"code-sandbox": {"command": "mcp-code-sandbox"}}}
\`\`\`
`,
	second: `## From mcp-sandbox

Stop the old server and start \`mcp-sandbox\` in the folder of its \`config.toml\`. The address of clients stays: \`http://127.0.0.1:8181/sse\`, with \`?api_key=KEY\` where authentication is on.
Accounts, keys and containers are not carried over: people register again, and files are uploaded again.
`,
};

function table(rows: readonly Row[]): string {
	const lines = rows.flatMap((r) => (r.page ? [`| ${r.page.topic} | ${r.page.there} | ${r.page.here} |${r.pending ? ` *not yet: ${r.pending}* |` : ''}`] : []));
	return ['| | there | here |', '|---|---|---|', ...lines.map((l) => l.replace(/ \|( \*not yet: .*\*) \|$/, '$1 |'))].join('\n');
}

/** The whole page. */
export function movingPage(rows: readonly Row[]): string {
	const part = (original: Original): string => `${HEADS[original]}\n${table(rows.filter((r) => r.original === original))}\n`;
	return `# Moving to Caisson

For people who come from one of the two servers that Caisson replaces: what stays the same, what differs on purpose, and how to get the old behaviour.
This page is made from the rows of \`tests/suites/originals\`: each line is tested by \`tests/run originals\`. To change it, change a row and run \`tests/run originals --write\`.

The commands \`mcp-code-sandbox\` and \`mcp-sandbox\` come with \`make install\`. They are names of the same program, which chooses the profile by its name: \`code\` or \`classic\`.
All settings: [configuration.md](configuration.md).

${part('first')}
${part('second')}`;
}
