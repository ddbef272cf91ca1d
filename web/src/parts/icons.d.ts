// SPDX-License-Identifier: Apache-2.0
declare module 'virtual:icons' {
	export const icons: Record<string, [tag: string, attributes: Record<string, string>][]>;
}
