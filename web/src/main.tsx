// SPDX-License-Identifier: Apache-2.0
import '@xterm/xterm/css/xterm.css';
import './style/tokens.css';
import './style/base.css';
import './style/parts.css';
import './style/shell.css';
import './style/home.css';
import './style/manage.css';
import './style/sandbox.css';
import './style/notebook.css';
import { render } from 'preact';
import { applyLook } from './app/look.ts';
import { startRouter } from './app/router.ts';
import { Shell } from './app/shell.tsx';

// A file that misses its place must not make the browser leave the page.
for (const name of ['dragover', 'drop'])
	addEventListener(name, (e) => e.preventDefault());
applyLook();
startRouter();
render(<Shell />, document.getElementById('app')!);
