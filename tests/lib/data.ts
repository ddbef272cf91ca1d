// SPDX-License-Identifier: Apache-2.0
// Seeded tables for the workflows: the same bytes in every run.

/** mulberry32: small, seeded, good enough for test data. */
export function random(seed: number): () => number {
	let a = seed >>> 0;
	return () => {
		a = (a + 0x6d2b79f5) >>> 0;
		let t = Math.imul(a ^ (a >>> 15), a | 1);
		t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
		return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
	};
}

export const salesCsv = `month,region,units,revenue
2024-01,North,120,2400.50
2024-02,North,135,2700.00
2024-03,North,150,3010.75
2024-04,North,160,3200.00
2024-01,South,80,1600.00
2024-02,South,95,1900.25
2024-03,South,110,2200.00
2024-04,South,125,2510.00
`;

export const marketingCsv = `channel,month,spend,clicks,conversions
search,2024-01,1200,3400,120
search,2024-02,1350,3900,141
search,2024-03,1100,3100,99
social,2024-01,800,5200,64
social,2024-02,950,6100,80
social,2024-03,1020,6400,91
email,2024-01,200,1500,75
email,2024-02,220,1650,83
email,2024-03,210,1600,79
display,2024-01,600,2100,21
display,2024-02,640,2300,26
display,2024-03,615,2200,24
`;

/** 15 columns of an online shop's customers; numbers depend on each other so that the tests of Smoke 2 find something. */
export function customersCsv(rows: number, seed = 42): string {
	const next = random(seed);
	const pick = <T>(list: readonly T[]): T => list[Math.floor(next() * list.length)]!;
	const normal = (): number => Math.sqrt(-2 * Math.log(1 - next())) * Math.cos(2 * Math.PI * next());
	const lines = ['customer_id,age,gender,country,segment,channel,signup_year,tenure_months,sessions,orders,avg_basket,revenue,returns,support_tickets,churned'];
	for (let i = 1; i <= rows; i++) {
		const segment = pick(['basic', 'basic', 'plus', 'premium'] as const);
		const weight = { basic: 1, plus: 1.6, premium: 2.5 }[segment];
		const age = Math.min(90, Math.max(18, Math.round(42 + 14 * normal())));
		const tenure = Math.floor(next() * 72);
		const sessions = Math.max(1, Math.round(20 * weight + 8 * normal()));
		const orders = Math.max(0, Math.round(sessions * 0.2 + normal()));
		const basket = Math.max(5, 40 * weight + 12 * normal());
		const tickets = Math.max(0, Math.round(normal() + 1));
		const churned = next() < 0.35 - 0.08 * weight + 0.05 * tickets ? 1 : 0;
		lines.push([
			`C${String(i).padStart(6, '0')}`, age, pick(['f', 'm', 'x']), pick(['DE', 'FR', 'PL', 'JP', 'BR', 'US']), segment,
			pick(['web', 'app', 'store']), 2024 - Math.floor(tenure / 12), tenure, sessions, orders, basket.toFixed(2),
			(orders * basket).toFixed(2), Math.round(orders * next() * 0.3), tickets, churned,
		].join(','));
	}
	return lines.join('\n') + '\n';
}
