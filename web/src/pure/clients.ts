// SPDX-License-Identifier: Apache-2.0
// The configuration of each client for the server at BASE. docs/clients.md has the same lines, and a test compares them.

/** The gateway that the suite `interop` runs. */
const GATEWAY = 'supergateway@4.0.0';

/** `open` is an address that the client itself opens and asks about. */
export function snippets(base: string, needsKey: boolean): { id: string; value: string; open?: string }[] {
	const json = (o: unknown): string => JSON.stringify(o, null, 2);
	const server = { type: 'http', url: `${base}/mcp`, ...(needsKey ? { headers: { Authorization: 'Bearer KEY' } } : {}) };
	const remote = ['-y', GATEWAY, '--streamableHttp', `${base}/mcp`, ...(needsKey ? ['--oauth2Bearer', 'KEY'] : [])];
	const bearer = needsKey ? " -H 'authorization: Bearer KEY'" : '';
	return [
		{ id: 'code', value: `claude mcp add --transport http caisson ${base}/mcp${needsKey ? ' --header "Authorization: Bearer KEY"' : ''}` },
		{ id: 'desktop', value: json({ mcpServers: { caisson: { command: 'npx', args: remote } } }) },
		{
			id: 'cursor', value: json({ mcpServers: { caisson: server } }),
			open: `cursor://anysphere.cursor-deeplink/mcp/install?name=caisson&config=${encodeURIComponent(btoa(JSON.stringify(server)))}`,
		},
		{
			id: 'vscode', value: json({ servers: { caisson: server } }),
			open: `vscode:mcp/install?${encodeURIComponent(JSON.stringify({ name: 'caisson', ...server }))}`,
		},
		{ id: 'stdio', value: `npx -y ${GATEWAY} --streamableHttp ${base}/mcp${needsKey ? ' --oauth2Bearer KEY' : ''}` },
		{ id: 'rest', value: `curl -s ${base}/api/v1/sandboxes${bearer} -H 'content-type: application/json' -d '{}'\ncurl -s ${base}/api/v1/sandboxes/ID/runs${bearer} -H 'content-type: application/json' -d '{"code":"print(6*7)","wait":true}'` },
	];
}
