// SPDX-License-Identifier: Apache-2.0
// The jobs: what a model calls, and what it must read in the answer (README.md).

import { daily } from './daily.ts';
import { put, python, type Job } from './step.ts';

const orders = `order,date,customer,amount
1,2025-03-01,Ada, 120.50
2,01/04/2025,Björn,80
3,March 5 2025,Chloé,n/a
4,2025-03-07,ada,99.90
4,2025-03-07,ada,99.90
5,,Dmitri,15
6,2025-04-02,Björn,1 200.00
`;

const cleaning: Job = {
	name: 'cleaning with dates',
	steps: [
		put('orders (March).csv', orders),
		python('import pandas as pd\ndf = pd.read_csv("orders (March).csv")\ndf.head(3)', ['order', 'amount', 'Ada', 'Chloé']),
		python(`import pandas as pd
df = pd.read_csv("orders (March).csv", skipinitialspace=True).drop_duplicates()
df["date"] = pd.to_datetime(df["date"], format="mixed", errors="coerce")
df["amount"] = pd.to_numeric(df["amount"].str.replace(" ", ""), errors="coerce")
df["customer"] = df["customer"].str.title()
clean = df.dropna()
clean.to_csv("clean.csv", index=False)
print("kept", len(clean), "of", len(df), "rows")
clean.groupby("customer")["amount"].sum()`, ['kept 4 of 6 rows', /Ada\s+220\.4/, /Björn\s+1280/, 'clean.csv']),
	],
};

const excel: Job = {
	name: 'Excel with several sheets',
	steps: [
		python(`import pandas as pd
with pd.ExcelWriter("report.xlsx") as out:
    for quarter in range(1, 5):
        pd.DataFrame({"product": ["tea", "coffee", "cocoa"], "sold": [10 * quarter, 20, 30 - quarter]}).to_excel(out, sheet_name=f"Q{quarter}", index=False)
`, ['report.xlsx']),
		python(`import pandas as pd
sheets = pd.read_excel("report.xlsx", sheet_name=None)
print(list(sheets))
pd.concat(sheets, names=["quarter"]).groupby("product")["sold"].sum()`, ["['Q1', 'Q2', 'Q3', 'Q4']", /cocoa\s+110/, /coffee\s+80/, /tea\s+100/]),
		{ tool: 'sandbox_read_file', args: { path: '/mnt/data/report.xlsx' }, reads: [/spreadsheet|Excel|xlsx/i], never: [/PK\u0003/], most: 1500 },
	],
};

const join: Job = {
	name: 'join of three files',
	steps: [
		put('people.csv', 'id,name,city\n1,Ines,Porto\n2,Jun,Osaka\n3,Kofi,Accra\n'),
		put('visits.json', JSON.stringify([{ id: 1, shop: 'a' }, { id: 3, shop: 'b' }, { id: 3, shop: 'a' }])),
		python(`import pandas as pd
pd.DataFrame({"shop": ["a", "b"], "rent": [700, 900]}).to_parquet("shops.parquet")`, ['shops.parquet']),
		python(`import pandas as pd
both = pd.read_csv("people.csv").merge(pd.read_json("visits.json"), on="id", how="left").merge(pd.read_parquet("shops.parquet"), on="shop", how="left")
both`, [/name\s+city\s+shop\s+rent/, /Ines\s+Porto\s+a\s+700/, /Jun\s+Osaka\s+NaN/, /Kofi\s+Accra\s+b\s+900/]),
	],
};

const parquet: Job = {
	name: 'parquet of a million rows',
	steps: [
		python(`import numpy as np, pandas as pd
rng = np.random.default_rng(7)
n = 1_000_000
pd.DataFrame({"store": rng.integers(0, 50, n), "day": rng.integers(0, 365, n), "units": rng.poisson(3, n)}).to_parquet("sales.parquet")`, ['sales.parquet']),
		python(`import pandas as pd
df = pd.read_parquet("sales.parquet")
best = df.groupby("store")["units"].sum().sort_values(ascending=False)
print(len(df), "rows,", len(best), "stores")
best.head(3)`, ['1000000 rows, 50 stores', 'store', 'units']),
		python('import duckdb\nduckdb.sql("select count(*) as n, max(day) as last from \'sales.parquet\'").fetchall()', ['(1000000, 364)']),
	],
};

const seaborn: Job = {
	name: 'seaborn',
	steps: [python(`import numpy as np, pandas as pd, seaborn as sns
rng = np.random.default_rng(1)
df = pd.DataFrame(rng.normal(size=(200, 4)), columns=["height", "weight", "age", "income"])
df["weight"] += df["height"]
grid = sns.heatmap(df.corr(), annot=True)
grid.figure.savefig("correlation.png")
print(round(df.corr().loc["height", "weight"], 1))`, ['0.7', 'correlation.png'], { pictures: 1, most: 1500 })],
};

const plotly: Job = {
	name: 'plotly',
	steps: [
		python(`import plotly.express as px
fig = px.scatter(x=[1, 2, 3], y=[4, 1, 9], title="growth")
fig.show()`, [/^Hint: The plotly figure is a page for the person.*matplotlib/m, /\.html/], { most: 2000, never: [/<script|Plotly\.newPlot/] }),
	],
};

const statsmodels: Job = {
	name: 'statsmodels',
	steps: [python(`import numpy as np, statsmodels.api as sm
rng = np.random.default_rng(3)
x = rng.uniform(0, 10, 200)
y = 2.5 * x + 4 + rng.normal(0, 0.5, 200)
model = sm.OLS(y, sm.add_constant(x)).fit()
print(model.summary())
print("slope", round(model.params[1], 1))`, ['OLS Regression Results', 'R-squared', 'slope 2.5'], { most: 4500 })],
};

const sklearn: Job = {
	name: 'scikit-learn',
	steps: [python(`from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import classification_report
from sklearn.model_selection import cross_val_score, train_test_split
x, y = load_iris(return_X_y=True)
a, b, c, d = train_test_split(x, y, random_state=0)
model = RandomForestClassifier(50, random_state=0, n_jobs=2).fit(a, c)
print(classification_report(d, model.predict(b)))
print("folds", (cross_val_score(model, x, y, cv=3) > 0.9).all())`, ['precision', 'accuracy', 'folds True'], { most: 2500 })],
};

const text = 'Grüße · Łódź · Привет · Ελλάδα · 你好世界 · こんにちは';
const pdf: Job = {
	name: 'PDF made and read with non-Latin text',
	steps: [
		python(`from reportlab.lib.styles import getSampleStyleSheet
from reportlab.platypus import Paragraph, SimpleDocTemplate
SimpleDocTemplate("letter.pdf").build([Paragraph(${JSON.stringify(text)}, getSampleStyleSheet()["Title"])])`, ['letter.pdf']),
		python(`from pypdf import PdfReader
print(PdfReader("letter.pdf").pages[0].extract_text())`, ['Grüße', 'Łódź', 'Привет', 'Ελλάδα', '你好世界', 'こんにちは']),
		{ tool: 'sandbox_run_shell', args: { command: 'pdftotext letter.pdf - | head -3' }, reads: ['Привет'] },
		{ tool: 'sandbox_read_file', args: { path: '/mnt/data/letter.pdf' }, reads: ['letter.pdf'], never: [/%PDF/], pictures: 1, most: 1500 },
	],
};

const images: Job = {
	name: 'image processing',
	steps: [
		python(`import numpy as np
from PIL import Image, ImageDraw
im = Image.new("L", (320, 240), 0)
draw = ImageDraw.Draw(im)
for i in range(5):
    draw.ellipse((20 + 60 * i, 60, 50 + 60 * i, 90), fill=200)
im.save("dots.png")`, ['dots.png'], { pictures: 1 }),
		python(`from skimage import filters, io, measure
im = io.imread("dots.png")
labels = measure.label(im > filters.threshold_otsu(im))
print("dots:", labels.max(), "area:", sum(r.area for r in measure.regionprops(labels)) > 2000)`, ['dots: 5 area: True']),
		python('from PIL import Image\nImage.open("dots.png").rotate(90, expand=True).save("scan.tiff")', ['scan.tiff']),
		{ tool: 'sandbox_read_file', args: { path: '/mnt/data/scan.tiff' }, reads: ['scan.tiff'], pictures: 1, most: 800 },
	],
};

const errors: Job = {
	name: 'an error loop',
	steps: [
		put('survey 2025.csv', 'name,score\nx,1\ny,5\n'),
		python('import pandas as pd\nprint(pd.read_csv("survey.csv"))', [/survey 2025\.csv/, 'FileNotFoundError'], { most: 2500 }),
		python('import pandas as pd\nprint(pd.read_csv("survey 2025.csv")["points"].mean())', ['KeyError', 'points'], { most: 2500 }),
		python('import pandas as pd\nprint(pd.read_csv("survey 2025.csv")["score"].mean()', [/SyntaxError.*never closed/], { most: 1200 }),
		python('import torch', [/torch.*(not installed|is missing)|(no|missing) module.*torch/i, 'ModuleNotFoundError'], { most: 1200 }),
		python('import urllib.request\nurllib.request.urlopen("https://example.com")', [/network/i], { most: 2500 }),
		python('open("survey 2025.csv").read().encode("ascii")\nimport pandas as pd\npd.read_csv("survey 2025.csv")["score"].mean()', ['3.0']),
	],
};

const progress: Job = {
	name: 'a long job with progress',
	steps: [python(`import time
for i in range(1, 6):
    print(f"epoch {i} of 5, loss {1 / i:.2f}")
    time.sleep(0.5)
print("best loss 0.20")`, ['epoch 1 of 5', 'epoch 5 of 5', 'best loss 0.20'], { progress: /epoch [1-4] of 5/ })],
};

const statements: Job = {
	name: 'thirty stateful statements with a crash in the middle',
	steps: [
		python('total = 0', [], { stateful: true }),
		...Array.from({ length: 13 }, (_, i) => python(`total += ${i}\ntotal`, [String((i * (i + 1)) / 2)], { stateful: true, most: 600 })),
		python('import os\nos.abort()', [/SIGABRT/], { stateful: true, most: 1200 }),
		python('total', ['78'], { stateful: true, most: 1500 }),
		...Array.from({ length: 14 }, (_, i) => python(i === 0 ? 'seen = []\nseen.append(0)\nlen(seen)' : `seen.append(${i})\nlen(seen)`, [String(i + 1)], { stateful: true, most: 600 })),
	],
};

const figures: Job = {
	name: 'unsaved figures',
	steps: [
		python(`import matplotlib.pyplot as plt
for name in ("north", "south"):
    plt.figure()
    plt.plot([1, 3, 2])
    plt.title(name)
plt.show()`, ['figure-1.png', 'figure-2.png'], { pictures: 2, most: 1500 }),
		python('import matplotlib.pyplot as plt\nfor i in range(7):\n    plt.figure(); plt.bar([1, 2], [i, 1])', [/figure-\d+\.png/, /figure-9\.png/], { pictures: 4, most: 2500 }),
	],
};

const long: Job = {
	name: 'very long output',
	steps: [
		python('for i in range(200_000):\n    print("line", i, "x" * 20)\nprint("the answer is 42")', ['line 0 x', /bytes|characters|lines/, 'the answer is 42'], { most: 17_500 }),
		{
			tool: 'sandbox_read_file',
			args: (last) => ({ path: /(\/mnt\/data\/\.output\/\S+?\.txt)/.exec(last)?.[1] ?? 'the answer names no file', start_line: 100_001, end_line: 100_003 }),
			reads: ['line 100000 x', 'line 100002 x'], most: 800,
		},
		python('def f(n):\n    return f(n + 1)\nf(0)', ['RecursionError'], { most: 3500 }),
	],
};

const ocr: Job = {
	name: 'letters in a scan',
	steps: [
		python(`from PIL import Image, ImageDraw, ImageFont
page = Image.new("RGB", (900, 260), "white")
font = ImageFont.truetype("/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf", 42)
draw = ImageDraw.Draw(page)
draw.text((40, 40), "Rechnung Größe", fill="black", font=font)
draw.text((40, 140), "привет книга", fill="black", font=font)
page.save("scan.png")`, ['scan.png'], { pictures: 1, most: 500 }),
		python('import pytesseract\nprint(pytesseract.image_to_string("scan.png", lang="deu+rus"))', ['Rechnung Größe', 'привет книга'], { most: 400 }),
		{ tool: 'sandbox_run_shell', args: { command: 'tesseract scan.png - -l deu+rus 2>/dev/null; tesseract --list-langs' }, reads: ['Rechnung', 'deu', 'eng', 'fra', 'osd', 'rus'], most: 500 },
		python('import cv2\ncv2.threshold(cv2.imread("scan.png", 0), 128, 255, cv2.THRESH_BINARY_INV)[1].any()', ['True'], { most: 400 }),
	],
};

const sound: Job = {
	name: 'sound',
	steps: [
		{ tool: 'sandbox_run_shell', args: { command: 'ffmpeg -v error -f lavfi -i sine=440:d=2 tone.mp3 && ffprobe -v error -show_entries format=duration,format_name -of default=nw=1 tone.mp3' }, reads: ['format_name=mp3', 'duration=2.'], most: 500 },
	],
};

const repository: Job = {
	name: 'tests and a commit',
	steps: [
		put('repo/test_sum.py', 'def test_sum():\n    assert 1 + 1 == 2\n\ndef test_wrong():\n    assert 1 + 1 == 3\n'),
		{ tool: 'sandbox_run_shell', args: { command: 'cd repo && git init -q . && pytest -q; git add test_sum.py && git commit -qm "first" && git log --format="%an %s"' }, reads: ['assert (1 + 1) == 3', '1 failed, 1 passed', 'Sandbox first'], most: 1500 },
	],
};

const flood: Job = {
	name: 'a flood of warnings',
	steps: [
		python(`import numpy as np
from sklearn.linear_model import LogisticRegression
x = np.random.default_rng(0).normal(size=(200, 5))
for i in range(150):
    LogisticRegression(max_iter=1).fit(x, x[:, 0] > 0)
    print("round done")
print("the end")`, ['round done', '[the line above 149 more times]', 'the end', 'ConvergenceWarning', '[this warning 149 more times]'], { most: 1400 }),
		python(`import matplotlib.pyplot as plt
for i in range(60):
    plt.figure(figsize=(1, 1)); plt.plot([i]); plt.savefig(f"fig-{i:02}.png"); plt.close()`, ['fig-00.png', /and 4[01] more/, 'Pictures that are not shown: 56'], { pictures: 4, most: 2400, never: [/fig-05\.png[^]*\n.*fig-05\.png/] }),
	],
};

const requests: Job = {
	name: 'a request that fails',
	steps: [
		python('import requests\nrequests.get("https://example.com/data.csv", timeout=5)', [/^Hint: The sandbox has no network/, 'requests.exceptions.ConnectionError'], { most: 2200 }),
		put('get.py', 'import requests\nrequests.get("https://example.com/data.csv", timeout=5)\n'),
		{ tool: 'sandbox_run_shell', args: { command: 'python3 get.py' }, reads: [/^Hint: The sandbox has no network/, 'requests.exceptions.ConnectionError'], most: 2200 },
		{ tool: 'sandbox_run_shell', args: { command: 'npm install' }, reads: [/^Hint: The program npm is not in this image\. Instead: /, '`caisson image build node`'], most: 400 },
	],
};

const scripts: Job = {
	name: 'Windows-1251 and Arabic',
	steps: [
		python('open("r.csv", "wb").write("Имя;Город\\nИван;Москва\\nОльга;Казань\\n".encode("cp1251"))\nimport pandas as pd\npd.read_csv("r.csv", sep=";")', [/^Hint: r\.csv is not UTF-8 but most likely cp1251/m, 'UnicodeDecodeError'], { most: 2500 }),
		python('import pandas as pd\npd.read_csv("r.csv", sep=";", encoding="cp1251")', ['Москва'], { most: 400 }),
		python(`import arabic_reshaper
from bidi.algorithm import get_display
from reportlab.pdfgen import canvas
page = canvas.Canvas("letter-ar.pdf")
page.drawString(72, 720, get_display(arabic_reshaper.reshape("مرحبا بالعالم")))
page.drawString(72, 690, get_display("שלום עולם"))
page.save()`, ['letter-ar.pdf'], { most: 400 }),
		{ tool: 'sandbox_run_shell', args: { command: 'pdffonts letter-ar.pdf; pdftotext letter-ar.pdf - | python3 -c "import sys, unicodedata; print(unicodedata.normalize(\'NFKC\', sys.stdin.read()))"' }, reads: [/DejaVu/i, /[\u0600-\u06ff]{3}/, /[\u0590-\u05ff]{3}/], most: 800 },
	],
};

export const jobs: readonly Job[] = [ocr, sound, repository, flood, requests, scripts, cleaning, excel, join, parquet, seaborn, plotly, statsmodels, sklearn, pdf, images, errors, progress, statements, figures, long, ...daily];
