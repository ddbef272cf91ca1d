// SPDX-License-Identifier: Apache-2.0
// Texts that become scripts, elements, links or nonsense where a page does not treat them as texts. A script that gets to run calls
// caissonStruck(), which fails the case.

const struck = (where: string): string => `caissonStruck('${where}')`;

export const hostileTexts: readonly string[] = [
	`<script>${struck('script')}</script>`,
	`<img src=x onerror="${struck('img')}">`,
	`<svg onload="${struck('svg')}"></svg>`,
	`"><script>${struck('double')}</script>`,
	`'><img src=x onerror=${struck('single')}>`,
	`</title></textarea></style></pre><script>${struck('close')}</script>`,
	`<!--<script>${struck('comment')}</script>-->`,
	`<iframe srcdoc="<script>parent.${struck('srcdoc')}</script>"></iframe>`,
	`javascript:${struck('scheme')}`,
	`data:text/html,<script>${struck('data')}</script>`,
	`http://192.0.2.1/steal?x=1`,
	`//192.0.2.1/steal.js`,
	`<a href="javascript:${struck('a')}">click</a>`,
	`<style>*{background:url(http://192.0.2.1/style)}</style>`,
	`<link rel=stylesheet href=http://192.0.2.1/link.css>`,
	`<meta http-equiv=refresh content="0;url=http://192.0.2.1/">`,
	`<base href=http://192.0.2.1/>`,
	`<form action=http://192.0.2.1/><button autofocus>x</button></form>`,
	`{{constructor.constructor("${struck('template')}")()}}`,
	`\${${struck('literal')}}`,
	`\u001b]8;;javascript:${struck('osc8')}\u0007link\u001b]8;;\u0007`,
	`\u001b]0;title\u0007\u001b[2J\u001b[31mred\u001b[0m`,
	`\u202egnp.exe\u202c`,
	`a\u200bb\ufeffc`,
	'../../../etc/passwd',
	'__proto__',
	'constructor',
	'%3Cscript%3Ealert(1)%3C/script%3E',
	'&lt;b&gt;&amp;&#x3c;script&#x3e;',
	`${'W'.repeat(3000)}`,
	'line one\r\nline two\u2028line three',
	'😀'.repeat(200) + 'é\u0301'.repeat(50),
];
