// SPDX-License-Identifier: Apache-2.0
// Dark or light: as the system says, unless the reader chose.

import { signal } from '@preact/signals';

export type Look = 'system' | 'light' | 'dark';
const order: readonly Look[] = ['system', 'light', 'dark'];
const kept = localStorage.getItem('caisson-look') as Look | null;
export const look = signal<Look>(kept && order.includes(kept) ? kept : 'system');

export function applyLook(): void {
	if (look.value === 'system')
		delete document.documentElement.dataset['look'];
	else
		document.documentElement.dataset['look'] = look.value;
}

export function cycleLook(): void {
	look.value = order[(order.indexOf(look.value) + 1) % order.length]!;
	localStorage.setItem('caisson-look', look.value);
	applyLook();
}
