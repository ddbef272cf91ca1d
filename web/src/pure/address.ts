// SPDX-License-Identifier: Apache-2.0
// Addresses that are made of what a server says. At the router of a fleet, rows come from workers, and a worker must not choose which request the page sends
// with the rights of a person.

/** Stays PATH the address that it looks like? Browsers resolve dots, also encoded ones, take "\" for "/", and drop blanks and control characters. */
export function isPlainPath(path: string): boolean {
	return !/[\u0000- \\?#]/.test(path) && !path.split('/').some((part) => /^(\.|%2e){1,2}$/i.test(part));
}

/** Is ADDRESS one of a web site? Others, such as "javascript:", would run in the page. */
export function isWebAddress(address: string): boolean {
	try {
		return ['http:', 'https:'].includes(new URL(address).protocol);
	} catch {
		return false;
	}
}
