// SPDX-License-Identifier: Apache-2.0
// The sandbox proxy of the specification: it shows the view in a frame of an opaque origin and passes messages on.
const host = parent;
let view;
addEventListener('message', (event) => {
	if (event.source === host && event.data?.method === 'ui/notifications/sandbox-resource-ready') {
		view = document.createElement('iframe');
		view.title = 'View';
		view.setAttribute('sandbox', event.data.params.sandbox ?? 'allow-scripts');
		view.srcdoc = event.data.params.html;
		document.body.append(view);
	} else if (event.source === host) view?.contentWindow.postMessage(event.data, '*');
	else if (view && event.source === view.contentWindow) host.postMessage(event.data, '*');
});
host.postMessage({ jsonrpc: '2.0', method: 'ui/notifications/sandbox-proxy-ready', params: {} }, '*');
