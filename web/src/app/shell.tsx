// SPDX-License-Identifier: Apache-2.0
// What is around every page: navigation, the state of the connection, messages, and the sign-in when nobody is signed in.

import { signal } from '@preact/signals';
import type { FunctionComponent } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { api } from '../api/client.ts';
import { connect, forget, loadSession, me, session, signedIn } from '../api/state.ts';
import { connection } from '../api/stream.ts';
import { Button, Empty, Fault, Loading } from '../parts/basics.tsx';
import { Icon } from '../parts/icon.tsx';
import { Dialog, sayFault, Toasts } from '../parts/overlay.tsx';
import { PasswordButton } from '../parts/password.tsx';
import { SignIn } from '../pages/signin.tsx';
import { text } from '../text/en.ts';
import { cycleLook, look } from './look.ts';
import { pages, type Page, type PageProps } from './pages.ts';
import { href, route } from './router.ts';

const drawer = signal(false);
const openSeen = signal(localStorage.getItem('caisson-open-seen') === '1');

export function Shell() {
	const [error, setError] = useState<unknown>(null);
	const [was, setWas] = useState(false); // somebody was signed in: the page stays behind the sign-in
	const start = (): void => void loadSession().then(() => setError(null), setError);
	useEffect(start, []);
	useEffect(() => {
		if (signedIn.value)
			setWas(true);
		connect();
	}, [signedIn.value]);
	if (error)
		return <main class="centred"><div class="panel"><h1>{text.shell.unreachable}</h1><Fault error={error} retry={start} /></div></main>;
	const s = session.value;
	if (!s)
		return <Loading />;
	if (!signedIn.value && !was || route.value.parts[0] === 'join')
		return <><main class="centred"><div class="panel"><SignIn /></div></main><Toasts /></>;
	return (
		<>
			<a class="button skip" href="#content" onClick={(e) => (e.preventDefault(), document.getElementById('content')?.focus())}>{text.shell.skip}</a>
			<div class="shell">
				<TopBar />
				<Side />
				<div class="content">
					<Notices />
					<CurrentPage />
				</div>
			</div>
			{!signedIn.value && <Dialog title={text.signin.over} onClose={() => undefined}><SignIn again /></Dialog>}
			<Toasts />
		</>
	);
}

function allowed(p: Page): boolean {
	const who = me.value;
	return p.needs === 'admin' ? Boolean(who?.admin) : p.needs === 'user' ? Boolean(session.value?.required) : true;
}

function TopBar() {
	return (
		<header class="topbar">
			<Button icon="menu" label={text.shell.menu} iconOnly look="plain" onClick={() => (drawer.value = true)} />
			<a class="brand" href={href()}>{text.name}</a>
		</header>
	);
}

function Links({ group }: { group: 'main' | 'admin' }) {
	const here = route.value.parts[0] ?? '';
	return (
		<nav aria-label={text.shell.groups[group]}>
			{pages.filter((p) => p.nav === group && allowed(p)).map((p) => (
				<a href={p.path ? href(p.path) : href()} aria-current={p.path === here || (p.path === '' && here === 'sandboxes') ? 'page' : undefined} onClick={() => (drawer.value = false)}><Icon name={p.icon} />{p.title}</a>
			))}
		</nav>
	);
}

function Side() {
	const s = session.value!;
	const signOut = async (): Promise<void> => {
		await api.remove('/session');
		forget();
		location.hash = '';
		location.reload();
	};
	const admin = pages.some((p) => p.nav === 'admin' && allowed(p));
	return (
		<>
			{drawer.value && <button type="button" class="veil" aria-label={text.common.close} onClick={() => (drawer.value = false)} />}
			<aside class={`side ${drawer.value ? 'open' : ''}`} onKeyDown={(e) => e.key === 'Escape' && (drawer.value = false)}>
				<a class="brand" href={href()}><Mark />{text.name}</a>
				<Links group="main" />
				{admin && <><div class="group">{text.shell.groups.admin}</div><Links group="admin" /></>}
				<div class="foot">
					<Button icon={look.value === 'dark' ? 'moon' : look.value === 'light' ? 'sun' : 'monitor'} label={text.shell.look[look.value]} look="plain" tiny onClick={cycleLook} />
					{s.required && s.me?.id && <PasswordButton />}
					{s.required && s.me && <Button icon="log-out" label={text.shell.signOut(s.me.name)} look="plain" tiny onClick={() => void signOut().catch(sayFault)} />}
					<span>{text.shell.version(s.version)} · <a href="licenses.txt" target="_blank" rel="noreferrer">{text.shell.licences}</a></span>
				</div>
			</aside>
		</>
	);
}

/** The sign of Caisson: a box under a line of water. */
export function Mark() {
	return (
		<svg width="22" height="22" viewBox="0 0 32 32" aria-hidden="true">
			<rect width="32" height="32" rx="7" fill="var(--accent)" />
			<path d="M7 11h18v14H7zM7 17h18M16 5v6" fill="none" stroke="var(--on-accent)" stroke-width="2.4" stroke-linejoin="round" stroke-linecap="round" />
		</svg>
	);
}

function Notices() {
	const s = session.value!;
	const seen = (): void => {
		localStorage.setItem('caisson-open-seen', '1');
		openSeen.value = true;
	};
	return (
		<section aria-label={text.shell.notices}>
			{connection.value === 'lost' && <div class="notice bad" role="status"><span class="spinner" />{text.shell.lost}</div>}
			{!s.required && !openSeen.value && <div class="notice"><Icon name="info" /><span>{text.shell.open}</span><span class="push"><Button label={text.common.understood} tiny onClick={seen} /></span></div>}
		</section>
	);
}

const loaded = new Map<string, FunctionComponent<PageProps>>();

function CurrentPage() {
	const { parts, query } = route.value;
	const page = pages.find((p) => p.path === (parts[0] ?? '') && allowed(p));
	const [, redraw] = useState(0);
	const [error, setError] = useState<unknown>(null);
	const Body = page && loaded.get(page.path);
	const fetchPage = (): void => {
		setError(null);
		if (page && !loaded.has(page.path))
			page.load().then((m) => (loaded.set(page.path, m.default), redraw((n) => n + 1)), setError);
	};
	useEffect(fetchPage, [page]);
	useEffect(() => {
		document.title = page?.path ? `${page.title} · ${text.name}` : text.name;
		drawer.value = false;
	}, [page]);
	return (
		<main id="content" tabIndex={-1} class={`page ${page?.full ? 'full' : ''}`}>
			{!page ? <Empty icon="search" title={text.shell.noPage} top><a class="button" href={href()}>{text.nav.home}</a></Empty>
				: error ? <Fault error={error} retry={fetchPage} />
				: Body ? <Body parts={parts.slice(1)} query={query} /> : <Loading />}
		</main>
	);
}
