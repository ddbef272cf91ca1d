// SPDX-License-Identifier: Apache-2.0
import type { Case } from '../case.ts';
import { clientCases } from './client.ts';
import { fileCases } from './files.ts';
import { hostCases } from './host.ts';
import { kernelCases } from './kernel.ts';
import { limitCases } from './limits.ts';
import { processCases } from './process.ts';

export const cases: Case[] = [...kernelCases, ...limitCases, ...fileCases, ...processCases, ...clientCases, ...hostCases];
