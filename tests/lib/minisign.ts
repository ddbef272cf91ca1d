// SPDX-License-Identifier: Apache-2.0
// Signatures in the format of minisign, made without libsodium: a second opinion on those that the product checks.

import { createHash, generateKeyPairSync, randomBytes, sign, type KeyObject } from 'node:crypto';
import { image, sha256, type Image } from './oci.ts';

export interface SignOptions {
	comment?: string;
	algorithm?: string;
	/** Changes the four lines. */
	lines?: (l: string[]) => string[];
	/** The comment that is signed, if it is another one than the one that is shown. */
	signedComment?: string;
}

export class Signer {
	readonly id = randomBytes(8);
	private readonly secret: KeyObject;
	/** As minisign prints it. */
	readonly public: string;

	constructor() {
		const { privateKey, publicKey } = generateKeyPairSync('ed25519');
		this.secret = privateKey;
		this.public = Buffer.concat([Buffer.from('Ed'), this.id, Buffer.from(publicKey.export({ format: 'jwk' }).x!, 'base64url')]).toString('base64');
	}
	sign(text: string, o: SignOptions = {}): string {
		const algorithm = o.algorithm ?? 'ED';
		const first = sign(null, algorithm === 'ED' ? createHash('blake2b512').update(text).digest() : Buffer.from(text), this.secret);
		const comment = o.comment ?? 'a test';
		const whole = sign(null, Buffer.concat([first, Buffer.from(o.signedComment ?? comment)]), this.secret);
		const lines = ['untrusted comment: a test', Buffer.concat([Buffer.from(algorithm), this.id, first]).toString('base64'), `trusted comment: ${comment}`, whole.toString('base64'), ''];
		return (o.lines?.(lines) ?? lines).join('\n');
	}
}

/** What a registry has under this tag for a signature. */
export const tagOf = (digest: string): string => `${digest.replace(':', '-')}.minisig`;
export function asImage(...signatures: string[]): Image {
	return image(signatures.map((s) => Buffer.from(s)), { plain: true });
}
/** The line that is signed. */
export const named = (name: string, signed: Buffer | string): string => `${name}@${typeof signed === 'string' ? signed : sha256(signed)}\n`;
