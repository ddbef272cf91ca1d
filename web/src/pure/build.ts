// SPDX-License-Identifier: Apache-2.0
// How far the build of an image is, read from the lines of `caisson image build`.

/** The last line that says it: "  installing packages  12/84 unpacking libc6". A share from 0 to 1; null: the step now has none. */
export function shareOf(lines: readonly string[]): number | null {
	const m = /^ {2}\S.*? {2}(\d+)\/(\d+) /.exec(lines.at(-1) ?? '');
	return m && Number(m[2]) > 0 ? Math.min(1, Number(m[1]) / Number(m[2])) : null;
}
