// SPDX-License-Identifier: Apache-2.0
// Rows with the name of their parent as a tree.

export interface Branch<T> {
	value: T;
	children: Branch<T>[];
}

/** Rows whose parent is gone, and rows in a ring, stand at the top. */
export function tree<T extends { name: string; parent?: string | null }>(rows: readonly T[]): Branch<T>[] {
	const all = new Map(rows.map((r) => [r.name, { value: r, children: [] as Branch<T>[] }]));
	const ringed = (r: T): boolean => {
		const seen = new Set<string>();
		for (let at: T | undefined = r; at; at = at.parent ? all.get(at.parent)?.value : undefined) {
			if (seen.has(at.name))
				return true;
			seen.add(at.name);
		}
		return false;
	};
	const top: Branch<T>[] = [];
	for (const b of all.values()) {
		const parent = b.value.parent && !ringed(b.value) ? all.get(b.value.parent) : undefined;
		(parent && parent !== b ? parent.children : top).push(b);
	}
	return top;
}
