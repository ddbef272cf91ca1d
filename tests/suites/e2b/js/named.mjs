// SPDX-License-Identifier: Apache-2.0
// A resolver of names for the tests, before a program (node --import): all below E2B_DOMAIN lead to this machine, as the operator's wildcard entry would have it.

import dns from 'node:dns';

const domain = `.${(process.env.E2B_DOMAIN ?? '').split(':')[0]}`;
const ask = dns.lookup;
dns.lookup = (host, ...more) => ask(domain.length > 1 && host.endsWith(domain) ? '127.0.0.1' : host, ...more);
