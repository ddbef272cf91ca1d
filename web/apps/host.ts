// SPDX-License-Identifier: Apache-2.0
/** What the view may ask of the program that shows it. */
export interface Host {
	/** The contents of an MCP resource of our server. */
	read(uri: string): Promise<Content[]>;
	canRead(): boolean;
	/** Opens a link in the person's browser. */
	open(url: string): Promise<void>;
	canOpen(): boolean;
}

export interface Content {
	uri: string;
	mimeType?: string;
	text?: string;
	blob?: string;
}
