// SPDX-License-Identifier: Apache-2.0
// What people do with the first family, from upload to close: its README's example, both smoke scripts, the demo.

import assert from 'node:assert/strict';
import { it } from 'node:test';
import { customersCsv, marketingCsv, salesCsv } from '../lib/data.ts';
import { isArtifact, isError, isRun, sessionIdPattern } from '../lib/expect.ts';
import { matrix, type Json, type Session } from '../lib/session.ts';

const pngMagic = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);

function names(run: Json): string[] {
	run.artifacts.forEach(isArtifact);
	return run.artifacts.map((a: Json) => a.filename).sort();
}

async function isPng(s: Session, session: string, name: string): Promise<void> {
	const bytes = await s.read(session, `/mnt/data/${name}`);
	assert.ok(bytes.subarray(0, 8).equals(pngMagic), `${name} is a PNG`);
	assert.ok(bytes.length > 1000, `${name} has content`);
}

matrix('workflow', {}, (s) => {
	it('README: upload, analyse, chart, link, read, close', async () => {
		const up = await s().upload('sales.csv', salesCsv);
		assert.match(up.session_id, sessionIdPattern);
		assert.equal(up.path, '/mnt/data/sales.csv');
		const id = up.session_id;
		const run = await s().ok([
			'import pandas as pd',
			'import matplotlib.pyplot as plt',
			'df = pd.read_csv("/mnt/data/sales.csv")',
			'print(df.groupby("region")["revenue"].sum())',
			'df.groupby("month")["revenue"].sum().plot(kind="bar")',
			'plt.tight_layout()',
			'plt.savefig("/mnt/data/chart.png")',
		].join('\n'), id);
		isRun(run);
		assert.equal(run.stderr, '', 'no warning of the image or the sandbox reaches the user');
		assert.match(run.stdout, /North\s+11311\.25/);
		assert.deepEqual(names(run), ['chart.png']);
		const link = await fetch(run.artifacts[0].download_url);
		assert.equal(link.status, 200);
		assert.equal(link.headers.get('content-type'), 'image/png');
		const read = await s().call('sandbox_read_artifact', { session_id: id, path: '/mnt/data/chart.png' });
		assert.equal(read.mime_type, 'image/png');
		assert.deepEqual(Buffer.from(read.content_base64, 'base64'), Buffer.from(await link.arrayBuffer()));
		assert.deepEqual(await s().close(id), { status: 'closed' });
	});

	it('(slow) Smoke 1: the real-life script', async () => {
		const { session_id: id } = await s().upload('sales.csv', salesCsv);
		const summary = await s().ok('import pandas as pd\nd = pd.read_csv("sales.csv")\nprint(d.describe())\nprint("Total", d["revenue"].sum())', id);
		assert.match(summary.stdout, /Total 19521\.5/);
		const chart = await s().ok([
			'import pandas as pd, matplotlib.pyplot as plt',
			'd = pd.read_csv("sales.csv")',
			'for name, g in d.groupby("region"): plt.plot(g["month"], g["revenue"], label=name)',
			'plt.legend(); plt.savefig("trend.png")',
		].join('\n'), id);
		assert.deepEqual(names(chart), ['trend.png']);
		const report = await s().ok('import pandas as pd\nd = pd.read_csv("sales.csv")\nopen("report.txt", "w").write("Report\\n" + d.to_string())', id);
		assert.deepEqual(names(report), ['report.txt']);
		assert.deepEqual((await s().list(id)).map((a) => a.filename).sort(), ['report.txt', 'sales.csv', 'trend.png']);
		await isPng(s(), id, 'trend.png');
		const wrong = await s().run('print(undefined_name)', id);
		assert.equal(wrong.exit_code, 1);
		assert.match(wrong.stderr, /NameError: name 'undefined_name' is not defined/);
		isError(await s().run('pass', 'bad id!'), 'invalid_session_id');
		assert.deepEqual(await s().close(id), { status: 'closed' });
	});

	it('(slow) Smoke 2: 50,000 rows of 15 columns', async () => {
		const { session_id: id } = await s().upload('customers.csv', customersCsv(50_000));
		const overview = await s().ok('import pandas as pd\nd = pd.read_csv("customers.csv")\nprint(d.shape)\nprint(d.isna().sum().sum())\nprint(d.dtypes.value_counts())', id);
		assert.match(overview.stdout, /^\(50000, 15\)\n0\n/);
		const bug = await s().run('import pandas as pd\nd = pd.read_csv("customers.csv")\nprint(d["revenu"].mean())', id);
		assert.equal(bug.exit_code, 1);
		assert.match(bug.stderr, /KeyError: 'revenu'/);
		const fixed = await s().ok('import pandas as pd\nd = pd.read_csv("customers.csv")\nprint(d["revenue"].mean() > 0)', id);
		assert.equal(fixed.stdout, 'True\n');
		const missing = await s().run('import torch', id);
		assert.match(missing.stderr, /ModuleNotFoundError: No module named 'torch'/);
		const dashboard = await s().ok([
			'import pandas as pd, matplotlib.pyplot as plt',
			'd = pd.read_csv("customers.csv")',
			'f, ax = plt.subplots(2, 3, figsize=(15, 9))',
			'd["age"].hist(bins=30, ax=ax[0][0]); d["revenue"].hist(bins=40, ax=ax[0][1])',
			'd.groupby("segment")["revenue"].mean().plot.bar(ax=ax[0][2])',
			'd.groupby("country")["orders"].sum().plot.bar(ax=ax[1][0])',
			'd.sample(2000, random_state=1).plot.scatter("sessions", "revenue", s=4, ax=ax[1][1])',
			'd.groupby("signup_year")["churned"].mean().plot(ax=ax[1][2])',
			'f.tight_layout(); f.savefig("dashboard.png")',
		].join('\n'), id);
		assert.deepEqual(names(dashboard), ['dashboard.png']);
		const heat = await s().ok('import pandas as pd, seaborn as sns\nd = pd.read_csv("customers.csv")\nsns.heatmap(d.corr(numeric_only=True), annot=True, fmt=".1f").figure.savefig("heatmap.png")', id);
		assert.deepEqual(names(heat), ['heatmap.png']);
		const tests = await s().ok([
			'import pandas as pd',
			'from scipy import stats',
			'd = pd.read_csv("customers.csv")',
			'a, b = d[d.segment == "basic"].revenue, d[d.segment == "premium"].revenue',
			'print("t", stats.ttest_ind(a, b).pvalue < 0.01)',
			'print("chi2", stats.chi2_contingency(pd.crosstab(d.segment, d.churned))[1] < 0.01)',
			'print("anova", stats.f_oneway(*[g.revenue for _, g in d.groupby("segment")]).pvalue < 0.01)',
			'print("pearson", round(stats.pearsonr(d.sessions, d.orders)[0], 1))',
		].join('\n'), id);
		assert.match(tests.stdout, /^t True\nchi2 True\nanova True\npearson 0\.\d\n$/);
		const segments = await s().ok([
			'import pandas as pd, matplotlib.pyplot as plt',
			'd = pd.read_csv("customers.csv")',
			'd["q"] = pd.qcut(d.revenue.rank(method="first"), 4, labels=["low", "mid", "high", "top"])',
			'print(d.groupby("q", observed=True).revenue.mean().is_monotonic_increasing)',
			'd.groupby(["q", "segment"], observed=True).size().unstack().plot.bar(stacked=True)',
			'plt.savefig("segments.png")',
		].join('\n'), id);
		assert.equal(segments.stdout, 'True\n');
		const pdf = await s().ok([
			'import pandas as pd',
			'from reportlab.lib.pagesizes import A4',
			'from reportlab.lib.styles import getSampleStyleSheet',
			'from reportlab.platypus import Image, Paragraph, SimpleDocTemplate, Table',
			'd = pd.read_csv("customers.csv")',
			'rows = [["segment", "mean revenue"]] + [[k, f"{v:.2f}"] for k, v in d.groupby("segment").revenue.mean().items()]',
			'story = [Paragraph("Customers", getSampleStyleSheet()["Title"]), Table(rows)]',
			'story += [Image(n, width=400, height=260) for n in ("dashboard.png", "heatmap.png", "segments.png")]',
			'SimpleDocTemplate("report.pdf", pagesize=A4).build(story)',
		].join('\n'), id);
		assert.deepEqual(names(pdf), ['report.pdf']);
		assert.deepEqual((await s().list(id)).map((a) => a.filename).sort(),
			['customers.csv', 'dashboard.png', 'heatmap.png', 'report.pdf', 'segments.png']);
		const bytes = await s().read(id, '/mnt/data/report.pdf');
		assert.equal(bytes.subarray(0, 5).toString(), '%PDF-');
		assert.ok(bytes.length > 20_000);
		assert.deepEqual(await s().close(id), { status: 'closed' });
	});

	it('Demo: marketing data, bars, PDF, a bug and its fix', async () => {
		const { session_id: id } = await s().upload('marketing.csv', marketingCsv);
		const stats = await s().ok('import pandas as pd\nd = pd.read_csv("marketing.csv")\nd["cpa"] = d.spend / d.conversions\nprint(len(d), d.groupby("channel").cpa.mean().idxmin())', id);
		assert.equal(stats.stdout, '12 email\n');
		const bars = await s().ok('import pandas as pd, seaborn as sns\nd = pd.read_csv("marketing.csv")\nsns.barplot(data=d, x="channel", y="conversions").figure.savefig("bars.png")', id);
		assert.deepEqual(names(bars), ['bars.png']);
		const pdf = await s().ok('from reportlab.pdfgen import canvas\nc = canvas.Canvas("report.pdf")\nc.drawString(72, 720, "Marketing")\nc.drawImage("bars.png", 72, 400, 400, 300)\nc.save()', id);
		assert.deepEqual(names(pdf), ['report.pdf']);
		assert.equal((await s().read(id, '/mnt/data/report.pdf')).subarray(0, 5).toString(), '%PDF-');
		assert.equal((await s().list(id)).length, 3);
		const bug = await s().run('import pandas as pd\nprint(pd.read_csv("marketing.csv").spend.sum() / 0 + unknown)', id);
		assert.equal(bug.exit_code, 1);
		const fix = await s().ok('import pandas as pd\nprint(pd.read_csv("marketing.csv").spend.sum())', id);
		assert.equal(fix.stdout, '8905\n');
		assert.deepEqual(await s().close(id), { status: 'closed' });
	});

	it('parquet, spreadsheet and labels in four scripts', async () => {
		const r = await s().ok([
			'import warnings; warnings.simplefilter("error")',
			'import pandas as pd, matplotlib.pyplot as plt',
			'd = pd.DataFrame({"名前": ["東京", "Αθήνα", "Москва", "Zürich"], "v": [1, 2, 3, 4]})',
			'd.to_parquet("d.parquet"); d.to_excel("d.xlsx", index=False)',
			'assert pd.read_parquet("d.parquet").equals(d) and pd.read_excel("d.xlsx").equals(d)',
			'd.plot.bar(x="名前", y="v"); plt.savefig("labels.png")',
		].join('\n'), 'formats');
		assert.deepEqual(names(r), ['d.parquet', 'd.xlsx', 'labels.png']);
	});
});
