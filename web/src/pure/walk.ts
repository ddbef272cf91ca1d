// SPDX-License-Identifier: Apache-2.0
// All files of a workspace, folder by folder, for a search by name.

export interface Named { name: string; type: string }
export interface Walked<F> { files: (F & { path: string })[]; whole: boolean }

export const FOLDERS_MAX = 200;
const AT_ONCE = 4;

/** LIST gives one folder, and says whether it has more than that. Folders near the top come first; at most FOLDERS_MAX are looked into. */
export async function walk<F extends Named>(list: (folder: string) => Promise<{ files: F[]; more: boolean }>, wanted: (f: F) => boolean): Promise<Walked<F>> {
	const found: Walked<F> = { files: [], whole: true };
	let level = [''];
	for (let looked = 0; level.length > 0;) {
		const below: string[] = [];
		for (let at = 0; at < level.length; at += AT_ONCE) {
			const some = level.slice(at, Math.min(at + AT_ONCE, at + FOLDERS_MAX - looked));
			if (some.length === 0)
				return { ...found, whole: false };
			looked += some.length;
			const pages = await Promise.all(some.map(list));
			pages.forEach((page, i) => {
				found.whole &&= !page.more;
				for (const f of page.files.filter(wanted)) {
					const path = some[i] ? `${some[i]}/${f.name}` : f.name;
					found.files.push({ ...f, path });
					if (f.type === 'folder')
						below.push(path);
				}
			});
		}
		level = below;
	}
	return found;
}
