// SPDX-License-Identifier: Apache-2.0
// What a file is, by its name: which preview it gets.

import { isDockerfile } from './build.ts';

export type Kind = 'picture' | 'pdf' | 'table' | 'page' | 'json' | 'text' | 'markdown' | 'sound' | 'film' | 'document' | 'archive' | 'other';

const endings: Record<Exclude<Kind, 'other' | 'text'>, RegExp> = {
	picture: /\.(png|jpe?g|gif|webp|svg|bmp|avif|ico)$/i,
	pdf: /\.pdf$/i,
	table: /\.(csv|tsv|parquet|xlsx|jsonl|ndjson)$/i,
	page: /\.html?$/i,
	json: /\.(json|geojson|ipynb)$/i,
	document: /\.(docx|pptx)$/i,
	archive: /\.(zip|tar|tgz|tar\.(gz|bz2|xz))$/i,
	markdown: /\.(md|markdown)$/i,
	sound: /\.(mp3|wav|ogg|oga|opus|flac|m4a|aac|weba)$/i,
	film: /\.(mp4|m4v|webm|ogv|mov)$/i,
};
const texts = /(\.(txt|rst|py|pyi|sh|bash|js|ts|css|xml|ya?ml|toml|ini|cfg|conf|log|sql|r|c|h|cc|cpp|hpp|rs|go|java|tex|env|diff|patch|out|err)|(^|\/)(Makefile|Dockerfile|README|LICENSE|\.[a-z]+rc))$/i;

export function kindOf(name: string): Kind {
	for (const [kind, ending] of Object.entries(endings))
		if (ending.test(name))
			return kind as Kind;
	return texts.test(name) || isDockerfile(name) ? 'text' : 'other';
}

export function iconOf(kind: Kind): string {
	return { picture: 'image', pdf: 'file-text', table: 'table', page: 'monitor', json: 'file-text', text: 'file-text', markdown: 'file-text', sound: 'music', document: 'book-open', archive: 'package', film: 'film', other: 'file' }[kind];
}
