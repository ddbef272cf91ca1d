// SPDX-License-Identifier: Apache-2.0
// A button by which people change their own password. The server ends every other sign-in; this browser gets a new one.

import { useState } from 'preact/hooks';
import { api } from '../api/client.ts';
import { session } from '../api/state.ts';
import type { Session } from '../api/types.ts';
import { text } from '../text/en.ts';
import { Button, Field } from './basics.tsx';
import { ActionDialog, say } from './overlay.tsx';

const t = text.password;

export function PasswordButton() {
	const [open, setOpen] = useState(false);
	const change = async (form: FormData): Promise<void> => {
		const next = String(form.get('new_password'));
		if (next !== form.get('again'))
			throw new Error(t.differ);
		session.value = await api.post<Session>('/me/password', { password: String(form.get('password')), new_password: next });
		say(t.done);
	};
	return (
		<>
			<Button icon="key" label={t.change} look="plain" tiny onClick={() => setOpen(true)} />
			{open && (
				<ActionDialog title={t.change} action={t.change} onClose={() => setOpen(false)} run={change}>
					<p class="quiet">{t.what}</p>
					<Field label={t.old} control={(a) => <input {...a} class="input" name="password" type="password" required autofocus autocomplete="current-password" />} />
					<Field label={t.next} hint={text.signin.passwordHint(session.value!.password_min)} control={(a) => <input {...a} class="input" name="new_password" type="password" required minLength={session.value!.password_min} autocomplete="new-password" />} />
					<Field label={t.again} control={(a) => <input {...a} class="input" name="again" type="password" required autocomplete="new-password" />} />
				</ActionDialog>
			)}
		</>
	);
}
