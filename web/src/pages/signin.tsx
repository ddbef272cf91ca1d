// SPDX-License-Identifier: Apache-2.0
// Sign in with a password or a key, or make an account with an invitation.

import { useState } from 'preact/hooks';
import { api, Problem } from '../api/client.ts';
import { session } from '../api/state.ts';
import type { Session } from '../api/types.ts';
import { route } from '../app/router.ts';
import { Mark } from '../app/shell.tsx';
import { Button, Fault, Field } from '../parts/basics.tsx';
import { text } from '../text/en.ts';

type Way = 'password' | 'key' | 'register';
const t = text.signin;

export function SignIn({ again }: { again?: boolean }) {
	const s = session.value!;
	const invitation = route.value.parts[0] === 'join' ? route.value.parts[1] ?? '' : '';
	const [way, setWay] = useState<Way>(invitation ? 'register' : s.methods.includes('password') ? 'password' : 'key');
	const [busy, setBusy] = useState(false);
	const [error, setError] = useState<unknown>(null);
	const choose = (w: Way): void => {
		setWay(w);
		setError(null);
	};
	const submit = async (e: SubmitEvent): Promise<void> => {
		e.preventDefault();
		const form = Object.fromEntries([...new FormData(e.target as HTMLFormElement)].filter(([, v]) => v !== ''));
		setBusy(true);
		setError(null);
		try {
			session.value = await api.post<Session>(way === 'register' ? '/register' : '/session', form);
			if (invitation)
				location.hash = '#/';
		} catch (x) {
			setError(x instanceof Problem && x.retryAfter ? new Error(t.wait(x.retryAfter)) : x);
		}
		setBusy(false);
	};
	return (
		<form class="stack" onSubmit={(e) => void submit(e)}>
			{again ? <p class="quiet">{t.again}</p> : <Head way={way} invited={invitation !== ''} />}
			{way === 'key'
				? <Field label={t.key} hint={t.keyHint} control={(a) => <input {...a} class="input" name="key" type="password" required autofocus autocomplete="off" spellcheck={false} />} />
				: <Password way={way} least={s.password_min} invitation={invitation} needs={s.registration === 'invitation'} />}
			{error !== null && <Fault error={error} />}
			<Button label={way === 'register' ? t.create : t.action} look="primary" type="submit" busy={busy} />
			<Others way={way} s={s} choose={choose} />
		</form>
	);
}

function Head({ way, invited }: { way: Way; invited: boolean }) {
	return (
		<div class="stack">
			<div class="brand"><Mark />{text.name}</div>
			<div><h1>{invited ? t.invited : way === 'register' ? t.register : t.title}</h1><p class="quiet">{t.welcome}</p></div>
		</div>
	);
}

function Password({ way, least, invitation, needs }: { way: Way; least: number; invitation: string; needs: boolean }) {
	const fresh = way === 'register';
	return (
		<>
			<Field label={t.user} control={(a) => <input {...a} class="input" name="username" required autofocus autocomplete="username" spellcheck={false} autocapitalize="none" />} />
			{fresh && <Field label={t.email} control={(a) => <input {...a} class="input" name="email" type="email" autocomplete="email" />} />}
			<Field label={t.password} hint={fresh ? t.passwordHint(least) : undefined} control={(a) => <input {...a} class="input" name="password" type="password" required minLength={fresh ? least : undefined} autocomplete={fresh ? 'new-password' : 'current-password'} />} />
			{fresh && (needs || invitation) && <Field label={t.invitation} control={(a) => <input {...a} class="input mono" name="invitation" required={needs} defaultValue={invitation} autocomplete="off" spellcheck={false} />} />}
		</>
	);
}

function Others({ way, s, choose }: { way: Way; s: Session; choose: (w: Way) => void }) {
	const ways: [Way, string, boolean][] = [
		['password', way === 'register' ? t.haveAccount : t.usePassword, s.methods.includes('password')],
		['key', t.useKey, s.methods.includes('key') && way !== 'register'],
		['register', s.registration === 'invitation' ? t.haveInvitation : t.register, s.registration !== 'off'],
	];
	return <div class="row">{ways.filter(([w, , can]) => can && w !== way).map(([w, words]) => <Button key={w} label={words} look="plain" tiny onClick={() => choose(w)} />)}</div>;
}
