// SPDX-License-Identifier: Apache-2.0
// Texts about the ports of a sandbox.

export const ports = {
	by: (program: string) => `${program} listens`,
	fresh: 'new',
	list: 'Ports',
	listens: 'something listens',
	more: (n: number) => n === 1 ? 'Another port is new' : `${n} more ports are new`,
	offer: (port: number, program?: string) => `${program ?? 'Something'} listens on port ${port}`,
	offers: 'New ports',
	open: 'Open',
	openWhat: (port: number) => `Opens the server on port ${port} in a new tab`,
	path: 'Programs reach it here, with a key:',
};
