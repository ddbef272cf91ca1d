// SPDX-License-Identifier: Apache-2.0
// For administrators: an image of a Dockerfile in a workspace, or of what the root user of a sandbox has changed.

import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { api } from '../api/client.ts';
import type { ImageBuild, Images } from '../api/manage.ts';
import { me } from '../api/state.ts';
import type { Sandbox } from '../api/types.ts';
import { Button, Fault, Field, useLoad } from '../parts/basics.tsx';
import { ActionForm, Dialog } from '../parts/overlay.tsx';
import { ARGS_MAX, argsOf, IMAGE_NAME, imageNameAt, imageNameOf, STAGE_MAX } from '../pure/build.ts';
import { text } from '../text/en.ts';
import { Build, underWay } from './image-build.tsx';

const t = text.images;
const AGAIN_MS = 1000;

/** Whether the person may have images made of sandboxes here. The server is asked only if WANTED. */
export function useMakesImages(wanted: boolean): boolean {
	const ask = wanted && Boolean(me.value?.admin) && !me.value?.read_only;
	const { value } = useLoad(async (signal) => ask ? api.get<Images>('/images', {}, signal) : undefined, [ask]);
	return ask && Boolean(value?.of_sandboxes);
}

interface Begin { title: string; action: string; name: string; begin: (name: string, form: FormData) => Promise<ImageBuild>; onClose: () => void; children: ComponentChildren }

/** Asks, begins, and shows the build until it has ended. Closing it ends nothing. */
function BuildDialog({ title, action, name, begin, onClose, children }: Begin) {
	const [begun, setBegun] = useState<ImageBuild | null>(null);
	return (
		<Dialog title={title} wide={begun !== null} onClose={onClose}>
			{begun ? <Progress of={begun} onClose={onClose} /> : (
				<ActionForm action={action} onCancel={onClose} run={async (form) => setBegun(await begin(String(form.get('name')).trim(), form))}>
					<Field label={t.name} hint={t.nameHint} control={(a) => <input {...a} class="input mono" name="name" required maxLength={63} pattern={IMAGE_NAME} title={t.nameHint} defaultValue={name} autocomplete="off" autocapitalize="off" spellcheck={false} autofocus />} />
					{children}
				</ActionForm>
			)}
		</Dialog>
	);
}

function Progress({ of, onClose }: { of: ImageBuild; onClose: () => void }) {
	const [seen, setSeen] = useState(of);
	const top = useRef<HTMLDivElement>(null);
	const { value, error, again } = useLoad((signal) => api.get<Images>('/images', {}, signal), []);
	const busy = underWay(seen);
	useEffect(() => top.current!.focus(), []); // the button that had the focus is gone
	useEffect(() => {
		const b = value?.build;
		if (b && b.name === of.name && b.began_at === of.began_at) // another one may have begun since
			setSeen(b);
	}, [value]);
	useEffect(() => {
		const timer = busy ? setInterval(again, AGAIN_MS) : undefined;
		return () => clearInterval(timer);
	}, [busy]);
	return (
		<div ref={top} class="stack" tabIndex={-1}>
			<Build of={seen} done={again} />
			{error !== undefined && <Fault error={error} retry={again} />}
			{busy ? <p class="quiet small">{t.goesOn}</p> : seen.state === 'done' && <p>{t.isThere(seen.name)}</p>}
			<div class="actions"><Button label={text.common.close} look={busy ? undefined : 'primary'} onClick={onClose} /></div>
		</div>
	);
}

/** PATH: of the Dockerfile, in the workspace. */
export function DockerfileDialog({ of, path, onClose }: { of: Sandbox; path: string; onClose: () => void }) {
	const begin = (name: string, form: FormData): Promise<ImageBuild> => {
		const { args, wrong } = argsOf(String(form.get('args')));
		if (wrong !== undefined || args.length > ARGS_MAX)
			throw new Error(wrong !== undefined ? text.home.envWrong(wrong) : t.argsMany(ARGS_MAX));
		const target = String(form.get('target')).trim();
		return api.post<ImageBuild>(`/sandboxes/${encodeURIComponent(of.id)}/image`, { name, dockerfile: path, args: args.length ? args : undefined, target: target || undefined });
	};
	return (
		<BuildDialog title={t.fileTitle(path)} action={t.build} name={imageNameAt(path, of.name ?? '')} begin={begin} onClose={onClose}>
			<details class="more">
				<summary>{t.fileMore}</summary>
				<div class="stack">
					<Field label={t.args} hint={t.argsHint} control={(a) => <textarea {...a} class="input mono" name="args" rows={3} autocomplete="off" autocapitalize="off" spellcheck={false} />} />
					<Field label={t.stage} hint={t.stageHint} control={(a) => <input {...a} class="input mono" name="target" maxLength={STAGE_MAX} autocomplete="off" autocapitalize="off" spellcheck={false} />} />
				</div>
			</details>
			<p class="quiet small">{t.fileWhat}</p>
		</BuildDialog>
	);
}

export function CommitDialog({ of, onClose }: { of: Sandbox; onClose: () => void }) {
	return (
		<BuildDialog title={t.commitTitle} action={t.commit} name={imageNameOf(of.name ?? '')} begin={(name) => api.post<ImageBuild>(`/sandboxes/${encodeURIComponent(of.id)}/image`, { name })} onClose={onClose}>
			<p class="quiet small">{t.commitWhat}</p>
		</BuildDialog>
	);
}
