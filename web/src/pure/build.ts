// SPDX-License-Identifier: Apache-2.0
// Images: how far a build is, read from the lines of `caisson image build`, and what a build from a Dockerfile is asked with.

/** The last line that says it: "  installing packages  12/84 unpacking libc6". A share from 0 to 1; null: the step now has none. */
export function shareOf(lines: readonly string[]): number | null {
	const m = /^ {2}\S.*? {2}(\d+)\/(\d+) /.exec(lines.at(-1) ?? '');
	return m && Number(m[2]) > 0 ? Math.min(1, Number(m[1]) / Number(m[2])) : null;
}

/** What the server takes as the name of an image, for the attribute `pattern`. Names with "t." in front are those of templates. */
export const IMAGE_NAME = '(?!t\\.)[a-z0-9][a-z0-9._\\-]{0,62}';
export const ARGS_MAX = 100; // of one build
export const STAGE_MAX = 128; // characters

/** Dockerfile, Dockerfile.dev, api.Dockerfile; not Dockerfile.dockerignore. */
export function isDockerfile(path: string): boolean {
	const name = path.split('/').pop()!;
	return /^dockerfile(\..+)?$|.\.dockerfile$/i.test(name) && !/\.dockerignore$/i.test(name);
}

/** WORDS as the name of an image; empty if nothing is left of them. */
export function imageNameOf(words: string): string {
	return words.toLowerCase().replace(/[^a-z0-9._-]+/g, '-').replace(/^([._-]|t\.)+/, '').slice(0, 63).replace(/[._-]+$/, '');
}

/** The name that an image gets from the Dockerfile at PATH: that of the folder, or WORDS if it is in none. */
export function imageNameAt(path: string, words: string): string {
	return imageNameOf(path.split('/').at(-2) ?? words);
}

/** Build arguments, one NAME=VALUE a line. WRONG: the first line that is none. */
export function argsOf(lines: string): { args: string[]; wrong?: string } {
	const args = lines.split(/\r?\n/).map((l) => l.trimStart()).filter((l) => l !== '');
	return { args, wrong: args.find((l) => !/^[^=\s]+=/.test(l)) };
}
