// SPDX-License-Identifier: Apache-2.0
import { h } from 'preact';
import { icons } from 'virtual:icons';

/** An icon of the one set (lucide). It is decoration: the button or text beside it has the words. */
export function Icon({ name, size = 16 }: { name: string; size?: number }) {
	return (
		<svg class="icon" width={size} height={size} viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width="1.75" stroke-linecap="round" stroke-linejoin="round" aria-hidden="true">
			{(icons[name] ?? []).map(([tag, attributes]) => h(tag, attributes))}
		</svg>
	);
}
