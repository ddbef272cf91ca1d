// SPDX-License-Identifier: Apache-2.0
// Texts of the tab Terminal; en.ts has them as a section.

export const terminal = {
	again: 'Press Enter for a new shell.',
	asleepWhat: 'A shell wakes it up, and it stays awake as long as the shell lives.',
	ended: (code: number) => `The shell has ended${code === 0 ? '' : ` with status ${code}`}.`,
	hint: 'The shell goes on when you leave this page, and is there when you come back. It ends with exit.',
	lost: 'The shell is not there any more.',
	missed: 'Some output is missing here.',
	open: 'Open a shell',
	readOnly: 'Your key may only look',
	title: 'Terminal',
	unavailable: 'This sandbox has no terminals: its kind of isolation (gVisor) cannot have them. Cells of the notebook run commands that begin with an exclamation mark.',
};
