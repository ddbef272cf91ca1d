// SPDX-License-Identifier: Apache-2.0
// xterm.js writes its rules into <style> elements, which the page's Content-Security-Policy blocks. build.mjs gives it this element instead:
// the rules go into a constructed style sheet of the document, which the policy allows.

export function makeStyle(): HTMLElement {
	const sheet = new CSSStyleSheet();
	document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
	const element = document.createElement('span');
	element.hidden = true;
	Object.defineProperty(element, 'textContent', { set: (rules: string) => sheet.replaceSync(rules), get: () => '' });
	const remove = element.remove.bind(element);
	element.remove = () => {
		document.adoptedStyleSheets = document.adoptedStyleSheets.filter((s) => s !== sheet);
		remove();
	};
	return element;
}
