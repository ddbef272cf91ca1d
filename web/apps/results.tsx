// SPDX-License-Identifier: Apache-2.0
// The view of results inside an MCP client (MCP Apps): what a person sees of a tool's result, beside the conversation. The host gives it
// the result; files are read through the host with resources/read. It asks no host of its own for anything.

import { App, applyDocumentTheme, applyHostStyleVariables, type McpUiHostContext } from '@modelcontextprotocol/ext-apps';
import { render } from 'preact';
import { signal } from '@preact/signals';
import { factsOf } from './facts.ts';
import type { Host } from './host.ts';
import { Result, type Shown } from './result.tsx';

const shown = signal<Shown>({ state: 'waiting' });
const app = new App({ name: 'caisson-results', version: '1' }, { availableDisplayModes: ['inline', 'fullscreen'] });

/** What the host lets us do. A button that the host would refuse is not shown. */
const host: Host = {
	read: async (uri) => (await app.readServerResource({ uri })).contents,
	canRead: () => app.getHostCapabilities()?.serverResources !== undefined,
	open: async (url) => void (await app.openLink({ url })),
	canOpen: () => app.getHostCapabilities()?.openLinks !== undefined,
};

function follow(context: McpUiHostContext | undefined): void {
	if (context?.theme) applyDocumentTheme(context.theme);
	if (context?.styles?.variables) applyHostStyleVariables(context.styles.variables);
	const box = context?.containerDimensions;
	document.documentElement.classList.toggle('fixed', box !== undefined && 'height' in box);
}

app.addEventListener('toolinput', () => { shown.value = { state: 'waiting' }; });
app.addEventListener('toolresult', (result) => { shown.value = { state: 'done', facts: factsOf(result) }; });
app.addEventListener('toolcancelled', () => { shown.value = { state: 'cancelled' }; });
app.addEventListener('hostcontextchanged', follow);
app.onteardown = async () => ({});

render(<Result shown={shown} host={host} />, document.querySelector('main')!);
await app.connect();
follow(app.getHostContext());
