// SPDX-License-Identifier: Apache-2.0
// Numbers and times as people read them.

export function bytes(n: number): string {
	const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
	let i = 0;
	while (n >= 999.5 && i < units.length - 1) {
		n /= 1024;
		i++;
	}
	return `${i === 0 || n >= 99.5 ? Math.round(n) : n.toFixed(n < 9.95 ? 1 : 0)} ${units[i]}`;
}

/** A duration: "340 ms", "2.1 s", "3 min 5 s", "2 h 10 min", "4 d 3 h". */
export function duration(ms: number): string {
	if (ms < 999.5)
		return `${Math.round(ms)} ms`;
	const s = ms / 1000;
	if (s < 59.95)
		return `${s < 9.95 ? s.toFixed(1) : Math.round(s)} s`;
	return long(Math.round(s));
}

function long(s: number): string {
	const steps: [number, string][] = [[86400, 'd'], [3600, 'h'], [60, 'min'], [1, 's']];
	const i = steps.findIndex(([n]) => s >= n);
	const [n, unit] = steps[i] ?? [1, 's'];
	const rest = steps[i + 1];
	const more = rest ? Math.floor((s % n) / rest[0]) : 0;
	return `${Math.floor(s / n)} ${unit}${rest && more ? ` ${more} ${rest[1]}` : ''}`;
}

/** An age in whole seconds, short: "12 s", "5 min", "3 h", "2 d". */
export function age(s: number): string {
	if (s < 60)
		return `${Math.max(0, Math.floor(s))} s`;
	if (s < 3600)
		return `${Math.floor(s / 60)} min`;
	return s < 86400 ? `${Math.floor(s / 3600)} h` : `${Math.floor(s / 86400)} d`;
}

/** A time of day with 24 hours, as logs, terminals and plots have it. */
export function clock(d: Date, seconds: boolean): string {
	return d.toLocaleTimeString('en-GB', { hour: '2-digit', minute: '2-digit', second: seconds ? '2-digit' : undefined });
}

/** Date and time of the reader's place, without seconds for days that have passed. */
export function when(rfc3339: string, now = new Date()): string {
	const d = new Date(rfc3339);
	if (Number.isNaN(d.getTime()))
		return rfc3339;
	const time = clock(d, d.toDateString() === now.toDateString());
	return d.toDateString() === now.toDateString() ? time : `${d.toLocaleDateString(undefined, { day: 'numeric', month: 'short', year: d.getFullYear() === now.getFullYear() ? undefined : 'numeric' })} ${time}`;
}

export function count(n: number): string {
	return n.toLocaleString('en-US');
}

/** The whole date, for whoever points at a short one. */
export function whole(rfc3339: string): string {
	const d = new Date(rfc3339);
	return `${d.toLocaleDateString(undefined, { day: 'numeric', month: 'long', year: 'numeric' })} ${clock(d, true)}`;
}

/** A figure of a plot: enough digits that neighbouring marks of an axis differ. */
export function figure(n: number): string {
	if (n >= 100 || Number.isInteger(n))
		return count(Math.round(n));
	return n.toFixed(n < 0.1 ? 3 : n < 1 ? 2 : 1);
}

/** The seconds that a plot of these times shows: at least the last MIN, because one time alone has no width. */
export function timeSpan(first: number, last: number, min: number): [number, number] {
	return [Math.min(first, last - min), last];
}
