// SPDX-License-Identifier: Apache-2.0
// HTML that a run made, plotly included. It lives in a frame with an opaque origin and no network: it can draw, and nothing else.

import { useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { Loading } from './basics.tsx';

const HEIGHT_MAX = 1600; // pixels
const HEIGHT_MIN = 60;
const HEIGHT_FIRST = 460;
const STEP = 64; // a page that fills its frame and a little more would grow for ever by such steps

let frames = 0; // that were made: each text gets a new one

/** STILL: no script of it runs. */
export function Frame({ html, title, fill, still }: { html: string; title: string; fill?: boolean; still?: boolean }) {
	const frame = useRef<HTMLIFrameElement>(null);
	const key = useMemo(() => ++frames, [html]);
	const [height, setHeight] = useState(HEIGHT_FIRST);
	const [ready, setReady] = useState(false);
	// Before the browser may do anything else: a frame that is ready says so once, and a busy page would not listen yet after painting.
	useLayoutEffect(() => {
		let sent = false; // once only: what a still frame shows may lead it to /frame (a link, a refresh), where scripts run; nothing is told to that one
		let last = HEIGHT_FIRST;
		let steps = 0;
		const onMessage = (e: MessageEvent): void => {
			if (e.source !== frame.current?.contentWindow)
				return;
			const m = e.data as { caisson?: string; height?: unknown } | null;
			if (m?.caisson === 'ready' && !sent) {
				sent = true;
				setReady(true);
				frame.current!.contentWindow!.postMessage({ html }, '*'); // its origin is opaque: no other target can be named
			} else if (m?.caisson === 'size' && typeof m.height === 'number' && Number.isFinite(m.height)) {
				const next = Math.min(HEIGHT_MAX, Math.max(HEIGHT_MIN, Math.ceil(m.height)));
				steps = next > last && next - last <= STEP ? steps + 1 : 0;
				if (steps > 2)
					return;
				last = next;
				setHeight(next);
			}
		};
		addEventListener('message', onMessage);
		return () => removeEventListener('message', onMessage);
	}, [html]);
	return (
		<>
			{!ready && <Loading />}
			<iframe ref={frame} key={key} class={`frame ${fill ? 'fill' : ''}`} hidden={!ready} sandbox="allow-scripts" src={still ? 'frame/still' : 'frame'} title={title} style={fill ? undefined : { height: `${height}px` }} referrerpolicy="no-referrer" />
		</>
	);
}
