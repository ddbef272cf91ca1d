// SPDX-License-Identifier: Apache-2.0
// What the bridge has to know of a message. Its bytes go through unchanged.
'use strict';

const META_VERSION = 'io.modelcontextprotocol/protocolVersion';
const NAMES = { 'tools/call': 'name', 'prompts/get': 'name', 'resources/read': 'uri' };

/** The index after the string that begins at I. */
function afterString(s, i) {
	for (let from = i + 1; ;) {
		const quote = s.indexOf('"', from);
		if (quote < 0)
			return s.length;
		let escapes = 0;
		while (s.charCodeAt(quote - 1 - escapes) === 92)
			escapes++;
		if (escapes % 2 === 0)
			return quote + 1;
		from = quote + 1;
	}
}

function next(pattern, s, i) {
	pattern.lastIndex = i;
	const found = pattern.exec(s);
	return found ? found.index : s.length;
}

/** The index after the value that begins at I. */
function afterValue(s, i) {
	if (s[i] === '"')
		return afterString(s, i);
	if (s[i] !== '{' && s[i] !== '[')
		return next(/[\s,\]}]/g, s, i);
	let depth = 0;
	for (let at = i; at < s.length;) {
		if (s[at] === '"') {
			at = afterString(s, at);
		} else {
			depth += s[at] === '{' || s[at] === '[' ? 1 : -1;
			at++;
			if (depth === 0)
				return at;
		}
		at = next(/["{}[\]]/g, s, at);
	}
	return s.length;
}

/** The text of a member of the object S, which is valid JSON: numbers are as they were written, such as 1.0 and 2^64. */
function memberText(s, name) {
	let found;
	for (let i = next(/["}]/g, s, 0); s[i] === '"';) {
		const end = afterString(s, i), begin = next(/[^\s:]/g, s, end), after = afterValue(s, begin);
		if (JSON.parse(s.slice(i, end)) === name)
			found = s.slice(begin, after);
		i = next(/["}]/g, s, after);
	}
	return found;
}

/** The text of an id, which tells ids apart: 1 is not "1". */
function idText(text) {
	return text[0] === '"' ? JSON.stringify(JSON.parse(text)) : text;
}

const isObject = (v) => typeof v === 'object' && v !== null && !Array.isArray(v);

/** The objects of a message: one, or those of a batch; each with the text of its id. None of what is no message. */
function read(text) {
	let value;
	try {
		value = JSON.parse(text);
	} catch {
		return [];
	}
	if (isObject(value))
		return [{ ...value, idText: 'id' in value ? idText(memberText(text, 'id')) : undefined }];
	return Array.isArray(value) ? value.filter(isObject).map((m) => ({ ...m, idText: 'id' in m ? JSON.stringify(m.id) : undefined })) : [];
}

const isRequest = (m) => typeof m.method === 'string' && m.idText !== undefined;
const isAnswer = (m) => m.idText !== undefined && ('result' in m || 'error' in m);
const paramsOf = (m) => (isObject(m.params) ? m.params : {});

/** The id of the request that the message TEXT cancels. */
function cancelledId(text) {
	const params = memberText(text, 'params');
	const id = params && params[0] === '{' ? memberText(params, 'requestId') : undefined;
	return id === undefined ? '' : idText(id);
}

/** The revision that a message of the modern era carries in itself, else ''. */
function revisionOf(m) {
	const meta = paramsOf(m)._meta;
	return isObject(meta) && typeof meta[META_VERSION] === 'string' ? meta[META_VERSION] : '';
}

function headerValue(text) {
	if (/^[!-~]([ -~]*[!-~])?$/.test(text) && !(text.startsWith('=?base64?') && text.endsWith('?=')))
		return text;
	return `=?base64?${Buffer.from(text).toString('base64')}?=`;
}

/** What a message of the modern era repeats in headers. */
function modernHeaders(m, revision) {
	const name = paramsOf(m)[NAMES[m.method] ?? ''];
	return {
		'MCP-Protocol-Version': headerValue(revision), 'Mcp-Method': headerValue(m.method),
		...(typeof name === 'string' ? { 'Mcp-Name': headerValue(name) } : {}),
	};
}

/** A message as a line of stdio: its line ends can only stand between words. */
const oneLine = (text) => text.replace(/[\r\n]/g, ' ');

function failure(id, text, status) {
	return `{"jsonrpc":"2.0","id":${id},"error":${JSON.stringify({ code: -32000, message: text, ...(status ? { data: { status } } : {}) })}}`;
}

module.exports = { cancelledId, failure, isAnswer, isObject, isRequest, modernHeaders, oneLine, read, revisionOf };
