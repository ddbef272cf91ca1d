// SPDX-License-Identifier: Apache-2.0
// The code of a cell becomes a script whose names stay. Declarations at the top level become those of `var`, which later cells may
// declare again. If the cell awaits or imports something, it becomes an async function, and its names become globals before that.
// place() tells where something in the script stands in the cell, for errors.
'use strict';

const acorn = (() => {
	try {
		return require('internal/deps/acorn/acorn/dist/acorn');  // Node's own, for which the kernel has --expose-internals
	} catch {
		return require('acorn');
	}
})();

const OPTIONS = {
	ecmaVersion: 'latest', sourceType: 'script', allowAwaitOutsideFunction: true, allowImportExportEverywhere: true,
	allowHashBang: true, preserveParens: true,
};
const IMPORT = '__caisson_import', PICK = '__caisson_pick', META = '__caisson_meta', SPACE = '$caisson$';

// { in front of a whole cell is an object, not a block: `{a: 1}` has a value.
function parse(code) {
	if (/^\s*\{/.test(code) && /\}\s*$/.test(code)) {
		try {
			const text = '(' + code + '\n)';
			return { tree: acorn.parse(text, OPTIONS), text, shift: 1 };
		} catch {
			// it is a block
		}
	}
	return { tree: acorn.parse(code, OPTIONS), text: code, shift: 0 };
}

function* children(node) {
	for (const key of Object.keys(node)) {
		const value = node[key];
		if (Array.isArray(value))
			for (const one of value) {
				if (one && typeof one.type === 'string')
					yield one;
			}
		else if (value && typeof value.type === 'string')
			yield value;
	}
}

function names(pattern, found) {
	switch (pattern && pattern.type) {
	case 'Identifier':
		found.push(pattern.name);
		break;
	case 'ObjectPattern':
		for (const one of pattern.properties)
			names(one.type === 'RestElement' ? one.argument : one.value, found);
		break;
	case 'ArrayPattern':
		for (const one of pattern.elements)
			names(one, found);
		break;
	case 'AssignmentPattern':
		names(pattern.left, found);
		break;
	case 'RestElement':
		names(pattern.argument, found);
		break;
	}
	return found;
}

const isFunction = (node) => /Function/.test(node.type);

// What the whole tree says: does the top level await, and what refers to the module that a cell is not?
function look(tree, edits) {
	let awaits = false;
	const waiting = [[tree, true]];
	while (waiting.length > 0) {
		const [node, top] = waiting.pop();
		if (node.type === 'ImportExpression')
			edits.push([node.start, node.start + 'import'.length, IMPORT]);
		else if (node.type === 'MetaProperty' && node.meta.name === 'import')
			edits.push([node.start, node.end, META]);
		else if (top && (node.type === 'AwaitExpression' || node.type === 'ImportDeclaration' ||
			node.type === 'ForOfStatement' && node.await || node.type === 'VariableDeclaration' && node.kind === 'await using'))
			awaits = true;
		const inside = top && !isFunction(node) && node.type !== 'StaticBlock' && node.type !== 'PropertyDefinition';
		for (const one of children(node))
			waiting.push([one, inside]);
	}
	return awaits;
}

class Rewriting {
	constructor(text, tree) {
		this.text = text;
		this.edits = [];
		this.globals = [];  // names that the cell declares at the top level
		this.pieces = [];   // [place in the result, place in the text] of what is the same in both
		this.before = '';   // what its function begins with
		this.awaits = look(tree, this.edits);
	}

	replace(start, end, text) {
		this.edits.push([start, end, text]);
	}

	insert(at, text) {
		this.edits.push([at, at, text]);
	}

	blank(start, end) {
		this.edits.push([start, end, this.text.slice(start, end).replace(/[^\n\r\u2028\u2029]/g, ' ')]);
	}

	declaration(node, inBlock) {
		if (node.kind === 'using' || node.kind === 'await using')
			return;
		const keyword = node.start + node.kind.length;
		for (const one of node.declarations)
			names(one.id, this.globals);
		if (!this.awaits) {
			this.replace(node.start, keyword, 'var'.padEnd(node.kind.length));
			for (const one of node.declarations)
				if (!one.init && node.kind === 'let')
					this.insert(one.end, ' = undefined');
			return;
		}
		for (const one of node.declarations) {
			if (!one.init)
				node.kind === 'let' ? this.insert(one.end, ' = undefined') : this.replace(one.start, one.end, 'undefined');
		}
		this.replace(node.start, keyword, inBlock ? ';(' : '(');
		this.insert(node.declarations[node.declarations.length - 1].end, ');');
		if (this.text[node.end - 1] === ';' && !inBlock)  // no empty statement before an `else`
			this.blank(node.end - 1, node.end);
	}

	// The `var` of loops and blocks is one of the top level, too.
	nested(node, parent) {
		if (isFunction(node) || node.type === 'ClassBody')
			return;
		if (node.type === 'VariableDeclaration' && node.kind === 'var') {
			const ofLoop = parent.init === node || parent.left === node && /^For/.test(parent.type);
			if (!ofLoop) {
				this.declaration(node, /^(Program|BlockStatement|SwitchCase)$/.test(parent.type));
			} else {
				for (const one of node.declarations)
					names(one.id, this.globals);
				this.blank(node.start, node.start + 'var'.length);
			}
		}
		for (const one of children(node))
			this.nested(one, node);
	}

	imports(node) {
		this.blank(node.start, node.end);
		const attributes = (node.attributes || []).map((one) => `${JSON.stringify(one.key.name ?? one.key.value)}:${one.value.raw}`);
		const options = attributes.length > 0 ? `,{with:{${attributes}}}` : '';
		let text = `${SPACE}=await ${IMPORT}(${node.source.raw}${options});`;
		for (const one of node.specifiers) {
			const name = one.local.name;
			this.globals.push(name);
			const from = one.type === 'ImportDefaultSpecifier' ? 'default' : one.imported && (one.imported.name ?? one.imported.value);
			text += from === undefined ? `globalThis.${name}=${SPACE};` :
				`globalThis.${name}=${PICK}(${SPACE},${JSON.stringify(from)},${node.source.raw});`;
		}
		this.before += text;
	}

	exported(node, last) {
		const inner = node.declaration;
		if (!inner) {
			this.blank(node.start, node.end);
			return;
		}
		this.blank(node.start, inner.start);
		if (/Declaration$/.test(inner.type) && (inner.id || inner.declarations)) {
			this.statement(inner, last);
		} else if (this.awaits && last) {
			this.insert(inner.start, ';return [(');
			this.insert(inner.end, ')];');
		} else {
			this.insert(inner.start, ';(');
			this.insert(inner.end, ');');
		}
	}

	// A statement of the top level. LAST: it is the last one; returns whether it has a value.
	statement(node, last) {
		switch (node.type) {
		case 'ExpressionStatement':
			if (last && this.awaits) {
				this.insert(node.expression.start, ';return [(');
				this.insert(node.expression.end, ')]');
			}
			return last;
		case 'VariableDeclaration':
			this.declaration(node, true);
			break;
		case 'FunctionDeclaration':
			this.globals.push(node.id.name);
			if (this.awaits) {
				this.before += `globalThis.${node.id.name}=${node.id.name};`;
			}
			break;
		case 'ClassDeclaration':
			this.globals.push(node.id.name);
			this.insert(node.start, `${this.awaits ? ';' : 'var '}${node.id.name}=`);
			this.insert(node.end, ';');
			break;
		case 'ImportDeclaration':
			this.imports(node);
			break;
		case 'ExportNamedDeclaration':
		case 'ExportAllDeclaration':
			this.exported(node, last);
			break;
		case 'ExportDefaultDeclaration':
			this.exported(node, last);
			return last && !/Declaration$/.test(node.declaration.type);
		default:
			if (this.awaits)
				this.nested(node, { type: 'Program' });
		}
		return false;
	}

	result() {
		let text = '', at = 0;
		this.edits.sort((a, b) => a[0] - b[0] || (a[1] > a[0]) - (b[1] > b[0]));
		for (const [start, end, by] of this.edits) {
			if (start < at)
				continue;  // inside of what is gone
			this.pieces.push([text.length, at]);
			text += this.text.slice(at, start) + by;
			at = end;
		}
		this.pieces.push([text.length, at]);
		return text + this.text.slice(at);
	}
}

const LINES = /\r\n|[\n\r\u2028\u2029]/g;

function offsetOf(text, line, column) {
	let at = 0;
	LINES.lastIndex = 0;
	for (let i = 1; i < line; i++) {
		if (!LINES.exec(text))
			return text.length;
		at = LINES.lastIndex;
	}
	return at + column - 1;
}

function positionOf(text, offset) {
	let line = 1, at = 0;
	LINES.lastIndex = 0;
	for (let found; (found = LINES.exec(text)) && LINES.lastIndex <= offset;) {
		line++;
		at = LINES.lastIndex;
	}
	return { line, column: offset - at + 1 };
}

// Returns the script of CODE; `awaits`: its value is a promise of [the value] or undefined; `has`: it has a value; `names`: what it
// declares; place(line, column): the same place in CODE, null = it is none of the code. Throws acorn's SyntaxError, with `loc` as in CODE.
function rewrite(code) {
	const { tree, text, shift } = parse(code);
	const r = new Rewriting(text, tree);
	const body = tree.body;
	let has = false;
	body.forEach((node, i) => has = r.statement(node, i === body.length - 1));
	const globals = [...new Set(r.globals)];
	let script = r.result(), before = 0;
	const length = script.length;
	if (r.awaits) {
		const prefix = `${globals.length > 0 ? `var ${globals};` : ''}(async()=>{${r.before ? `let ${SPACE};` : ''}${r.before}` +
			(script.startsWith('#!') ? '//' : '');
		before = prefix.length;
		script = prefix + script + '\n})()';
	}
	const place = (line, column) => {
		const at = offsetOf(script, line, column) - before;
		if (at < 0 || at >= length)
			return null;
		const [made, from] = r.pieces.findLast((one) => one[0] <= at);
		return positionOf(code, Math.min(Math.max(0, from + at - made - shift), code.length));
	};
	return { text: script, awaits: r.awaits, has, names: globals, place };
}

module.exports = { rewrite, IMPORT, PICK, META };
