// SPDX-License-Identifier: Apache-2.0
// An MCP client with a window, as the specification of MCP Apps describes one, made with the SDK's host side. It runs in the browser;
// what it asks the MCP server goes through the test (`hostAsk`). Bundled by apps.ts.

import { AppBridge, PostMessageTransport } from '@modelcontextprotocol/ext-apps/app-bridge';

interface Show {
	proxy: string;
	html: string;
	input: Record<string, unknown>;
	result: any;
	context: Record<string, unknown>;
	/** Capabilities of this host. */
	can: Record<string, unknown>;
}

declare const hostAsk: (method: string, params: unknown) => Promise<any>;
declare const hostTold: (what: string, data: unknown) => Promise<void>;

let bridge: AppBridge | undefined;

async function show(s: Show): Promise<void> {
	const frame = document.createElement('iframe');
	frame.title = 'Result';
	frame.src = s.proxy;
	frame.setAttribute('sandbox', 'allow-scripts allow-same-origin');
	bridge = new AppBridge(null, { name: 'test-host', version: '1' }, s.can as any, { hostContext: s.context as any });
	bridge.onreadresource = (params) => hostAsk('resources/read', params);
	bridge.onopenlink = async ({ url }) => (await hostTold('link', url), {});
	bridge.onsizechange = ({ height }) => {
		if (height !== undefined) frame.style.height = `${Math.min(height, 2000)}px`;
		void hostTold('size', height);
	};
	const ready = new Promise<void>((done) => { bridge!.onsandboxready = () => done(); });
	const initialized = new Promise<void>((done) => { bridge!.oninitialized = () => done(); });
	document.body.replaceChildren(frame);
	await bridge.connect(new PostMessageTransport(frame.contentWindow!, frame.contentWindow!));
	await ready;
	await bridge.sendSandboxResourceReady({ html: s.html, sandbox: 'allow-scripts' });
	await initialized;
	await bridge.sendToolInput({ arguments: s.input });
	await bridge.sendToolResult(s.result);
}

Object.assign(globalThis, { show, theme: (theme: 'light' | 'dark') => bridge!.setHostContext({ theme }), cancel: () => bridge!.sendToolCancelled({ reason: 'test' }), teardown: () => bridge!.teardownResource({}) });
