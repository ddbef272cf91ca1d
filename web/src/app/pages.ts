// SPDX-License-Identifier: Apache-2.0
// Every page: the first part of its address, its place in the navigation, and the module that is loaded when it is opened.

import type { FunctionComponent } from 'preact';
import { text } from '../text/en.ts';

export interface PageProps {
	parts: string[]; // of the address, behind the page's own name
	query: URLSearchParams;
}

export interface Page {
	path: string; // '' is the home page
	title: string;
	icon: string;
	nav?: 'main' | 'admin'; // where it is in the navigation; a page without it is reached by links
	needs?: 'admin' | 'user'; // user: people who are signed in, not an open server
	full?: boolean; // it fills the window and scrolls by itself
	load: () => Promise<{ default: FunctionComponent<PageProps> }>;
}

export const pages: readonly Page[] = [
	{ path: '', title: text.nav.home, icon: 'box', nav: 'main', load: () => import('../pages/home.tsx') },
	{ path: 'sandboxes', title: text.nav.sandbox, icon: 'box', full: true, load: () => import('../pages/sandbox.tsx') },
	{ path: 'connect', title: text.nav.connect, icon: 'plug', nav: 'main', load: () => import('../pages/connect.tsx') },
	{ path: 'history', title: text.history.title, icon: 'history', nav: 'main', load: () => import('../pages/history.tsx') },
	{ path: 'keys', title: text.keys.title, icon: 'key', nav: 'main', load: () => import('../pages/keys.tsx') },
	{ path: 'everyone', title: text.everyone.title, icon: 'hard-drive', nav: 'admin', needs: 'admin', load: () => import('../pages/everyone.tsx') },
	{ path: 'people', title: text.people.title, icon: 'users', nav: 'admin', needs: 'admin', load: () => import('../pages/people.tsx') },
	{ path: 'invitations', title: text.invitations.title, icon: 'mail', nav: 'admin', needs: 'admin', load: () => import('../pages/invitations.tsx') },
	{ path: 'audit', title: text.audit.title, icon: 'scroll-text', nav: 'admin', needs: 'admin', load: () => import('../pages/audit.tsx') },
	{ path: 'server', title: text.server.title, icon: 'server', nav: 'admin', needs: 'admin', load: () => import('../pages/server.tsx') },
];
