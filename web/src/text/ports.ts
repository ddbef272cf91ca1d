// SPDX-License-Identifier: Apache-2.0
// Texts about the ports of a sandbox.

export const ports = {
	by: (program: string) => `${program} listens`,
	list: 'Ports',
	listens: 'something listens',
	open: 'Open',
	openWhat: (port: number) => `Opens the server on port ${port} in a new tab`,
	path: 'Programs reach it here, with a key:',
};
