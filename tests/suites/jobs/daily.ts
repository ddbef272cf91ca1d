// SPDX-License-Identifier: Apache-2.0
// Jobs of every day: what people ask of a model with their own files. Each file that a job makes is opened again by another library or program.

import { put, python, shell, type Job } from './step.ts';

const learning: Job = {
	name: 'groups, components and a pipeline',
	steps: [
		python(`from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs
from sklearn.metrics import silhouette_score
x, y = make_blobs(600, centers=4, cluster_std=0.6, random_state=3)
for k in (2, 3, 4, 5):
    print(k, round(silhouette_score(x, KMeans(k, n_init=4, random_state=0).fit_predict(x)), 2))
sizes = KMeans(4, n_init=4, random_state=0).fit(x).labels_
sorted(int((sizes == i).sum()) for i in range(4))`, [/^4 0\.[789]/m, '[150, 150, 150, 150]'], { most: 600 }),
		python(`from sklearn.compose import make_column_transformer
from sklearn.datasets import load_wine
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
x, y = load_wine(return_X_y=True)
search = GridSearchCV(make_pipeline(StandardScaler(), PCA(), LogisticRegression()), {"pca__n_components": [1, 5]}, cv=3, n_jobs=2).fit(x, y)
print(search.best_params_, search.best_score_ > 0.95)
search.best_estimator_`, ["{'pca__n_components': 5} True", 'Pipeline'], { most: 1200, never: [/<div|<style/] }),
		python(`import joblib
from sklearn.datasets import load_wine
from sklearn.ensemble import GradientBoostingClassifier
x, y = load_wine(return_X_y=True)
joblib.dump(GradientBoostingClassifier(n_estimators=20, random_state=0).fit(x, y), "model.joblib")`, ['model.joblib'], { most: 500 }),
		python('import joblib\nfrom sklearn.datasets import load_wine\nx, y = load_wine(return_X_y=True)\njoblib.load("model.joblib").score(x, y) > 0.99', ['True'], { most: 400 }),
	],
};

const spectrum: Job = {
	name: 'the spectrum of a recording',
	steps: [
		python(`import numpy as np
from scipy.io import wavfile
t = np.arange(44100) / 44100
wavfile.write("two tones.wav", 44100, (8000 * (np.sin(2 * np.pi * 440 * t) + np.sin(2 * np.pi * 3000 * t))).astype("int16"))`, ['two tones.wav'], { most: 500 }),
		shell('ffmpeg -i "two tones.wav" -ar 16000 -ac 1 low.wav && ffprobe -v error -show_entries stream=codec_name,sample_rate,channels,duration -of json low.wav', [/"codec_name": "pcm_s16le"/, '"sample_rate": "16000"', '"duration": "1.000000"', "from 'two tones.wav'", 'low.wav'], { most: 1600, never: [/configuration:/] }),
		python(`import matplotlib.pyplot as plt, numpy as np
from scipy.io import wavfile
from scipy.signal import find_peaks
rate, sound = wavfile.read("low.wav")
strength = np.abs(np.fft.rfft(sound))
where = np.fft.rfftfreq(len(sound), 1 / rate)
plt.specgram(sound, Fs=rate)
plt.xlabel("s"); plt.ylabel("Hz")
plt.savefig("spectrum.png")
print(rate, [round(float(where[i])) for i in find_peaks(strength, height=strength.max() / 3)[0]])`, ['16000 [440, 3000]', 'spectrum.png'], { pictures: 1, most: 700 }),
	],
};

const slides: Job = {
	name: 'PowerPoint with a chart and a picture',
	steps: [
		python(`from PIL import Image
from pptx import Presentation
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.util import Inches
Image.new("RGB", (200, 100), "navy").save("logo.png")
deck = Presentation()
first = deck.slides.add_slide(deck.slide_layouts[0])
first.shapes.title.text = "Quarterly review — Übersicht"
first.placeholders[1].text = "Finance"
second = deck.slides.add_slide(deck.slide_layouts[5])
second.shapes.title.text = "Revenue"
data = CategoryChartData(); data.categories = ["Q1", "Q2", "Q3"]; data.add_series("2025", (19.2, 21.4, 16.7))
second.shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, Inches(1), Inches(1.5), Inches(6), Inches(4), data)
second.shapes.add_picture("logo.png", Inches(8), Inches(0.2), width=Inches(1))
second.notes_slide.notes_text_frame.text = "mention the dip"
deck.save("review.pptx")`, ['review.pptx'], { pictures: 1, most: 600 }),
		python(`from pptx import Presentation
for number, slide in enumerate(Presentation("review.pptx").slides, 1):
    print(number, slide.shapes.title.text, [s.shape_type for s in slide.shapes if s.has_chart or not s.is_placeholder])
    if slide.has_notes_slide: print("notes:", slide.notes_slide.notes_text_frame.text)`, ['1 Quarterly review — Übersicht', '2 Revenue', 'CHART', 'PICTURE', 'notes: mention the dip'], { most: 500 }),
		shell('unzip -l review.pptx | grep -cE "slides/slide[12].xml|charts/chart|media/image|embeddings/.*xlsx" && unzip -tq review.pptx', [/^5$/m, 'No errors detected'], { most: 500 }),
		{ tool: 'sandbox_read_file', args: { path: '/mnt/data/review.pptx' }, reads: ['review.pptx'], never: [/PK\u0003/], most: 1500 },
	],
};

const pages: Job = {
	name: 'plotly as a page and as a picture',
	steps: [
		python(`import plotly.graph_objects as go
fig = go.Figure(go.Bar(x=["tea", "coffee"], y=[12, 30]))
fig.update_layout(title="Cups")
fig.write_html("cups.html", include_plotlyjs="cdn")
fig.write_json("cups.json")`, ['cups.html', 'cups.json'], { most: 800, never: [/<script/] }),
		python('import plotly.io as pio\npio.read_json("cups.json").write_image("cups.png")', [/^Hint: plotly needs a browser for pictures.*matplotlib/m, 'RuntimeError'], { most: 1300 }),
		shell(`python3 - <<'END'
from bs4 import BeautifulSoup
page = BeautifulSoup(open("cups.html"), "lxml")
print(len(page.select("div.plotly-graph-div")), "graph;", '"Cups"' in page.get_text() or "Cups" in str(page))
END`, ['1 graph; True'], { most: 400 }),
	],
};

const branches: Job = {
	name: 'git: a change on a branch',
	steps: [
		shell('git init -q shop && cd shop && printf "def price(n):\\n    return n * 2\\n" > price.py && git add -A && git commit -qm "price" && git checkout -qb discount && sed -i "s/n \\* 2/n * 2 * 0.9/" price.py && git diff', ['-    return n * 2', '+    return n * 2 * 0.9'], { most: 900 }),
		shell('cd shop && git commit -qam "discount of ten percent" && git checkout -q - && git merge -q --no-edit discount && git log --oneline --stat && git status --short && git blame -s price.py', ['discount of ten percent', 'price.py | 2 +-', 'price', 'return n * 2 * 0.9'], { most: 1100, never: [/fatal|hint:/] }),
		shell('cd shop && git clone -q . ../copy && git -C ../copy log --format=%s && git fsck', ['discount of ten percent', 'price'], { most: 900, never: [/fatal|error/] }),
		shell('git clone https://github.com/octocat/Hello-World', [/^Hint: .*network/, 'fatal'], { most: 700 }),
	],
};

const mending: Job = {
	name: 'a failing test that is mended',
	steps: [
		put('app/roman.py', 'VALUES = [(10, "X"), (5, "V"), (1, "I")]\n\n\ndef roman(n):\n    out = ""\n    for value, letter in VALUES:\n        while n >= value:\n            out += letter\n            n -= value\n    return out\n'),
		put('app/test_roman.py', 'import pytest\nfrom roman import roman\n\n\n@pytest.mark.parametrize("n,text", [(1, "I"), (4, "IV"), (9, "IX"), (14, "XIV")])\ndef test_roman(n, text):\n    assert roman(n) == text\n'),
		shell('cd app && python3 -m pytest -q', [/AssertionError|assert '/, "- IV", '+ IIII', '3 failed, 1 passed'], { most: 3000 }),
		{ tool: 'sandbox_edit_file', args: { path: '/mnt/data/app/roman.py', old_text: '[(10, "X"), (5, "V"), (1, "I")]', new_text: '[(10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I")]' }, reads: ['roman.py'], most: 500 },
		shell('cd app && python3 -m pytest -q', ['4 passed'], { most: 400, never: [/failed/] }),
	],
};

const letter: Job = {
	name: 'Word with a table and a picture',
	steps: [
		python(`import matplotlib.pyplot as plt
from docx import Document
from docx.shared import Cm
plt.plot([1, 4, 9]); plt.title("costs"); plt.savefig("costs.png")
paper = Document()
paper.add_heading("Bericht für März", 0)
paper.add_paragraph("Costs went up; the table has the months.")
table = paper.add_table(rows=1, cols=2, style="Light Grid Accent 1")
table.rows[0].cells[0].text, table.rows[0].cells[1].text = "month", "cost"
for month, cost in (("January", 1), ("February", 4), ("March", 9)):
    row = table.add_row().cells
    row[0].text, row[1].text = month, str(cost)
paper.add_picture("costs.png", width=Cm(10))
paper.save("bericht.docx")`, ['bericht.docx'], { pictures: 1, most: 600 }),
		python(`from docx import Document
paper = Document("bericht.docx")
print([p.text for p in paper.paragraphs if p.text])
print([[c.text for c in r.cells] for r in paper.tables[0].rows], len(paper.inline_shapes), "picture")`, ['Bericht für März', "['February', '4']", '1 picture'], { most: 600 }),
		python(`import io, zipfile
from PIL import Image
with zipfile.ZipFile("bericht.docx") as z:
    print([n for n in z.namelist() if "media" in n], Image.open(io.BytesIO(z.read("word/media/image1.png"))).size, z.testzip())`, ["['word/media/image1.png'] (640, 480) None"], { most: 400 }),
		{ tool: 'sandbox_read_file', args: { path: '/mnt/data/bericht.docx' }, reads: ['bericht.docx'], never: [/PK\u0003/], most: 1500 },
	],
};

const formulas: Job = {
	name: 'Excel with formulas and a chart',
	steps: [
		python(`import xlsxwriter
book = xlsxwriter.Workbook("budget.xlsx")
sheet = book.add_worksheet("Budget")
money = book.add_format({"num_format": "#,##0.00 €", "bold": True})
for i, (what, plan, spent) in enumerate([("rent", 900, 900), ("food", 300, 342.5), ("trips", 150, 80)], 1):
    sheet.write_row(i, 0, [what, plan, spent])
    sheet.write_formula(i, 3, f"=C{i + 1}-B{i + 1}", money, spent - plan)
sheet.write_row(0, 0, ["what", "plan", "spent", "difference"])
sheet.write_formula("D5", "=SUM(D2:D4)", money, -27.5)
chart = book.add_chart({"type": "column"})
chart.add_series({"categories": "=Budget!$A$2:$A$4", "values": "=Budget!$C$2:$C$4"})
sheet.insert_chart("F2", chart)
book.close()`, ['budget.xlsx'], { most: 500 }),
		python(`from openpyxl import load_workbook
sheet = load_workbook("budget.xlsx")["Budget"]
print(sheet["D5"].value, sheet["D5"].number_format, len(sheet._charts), "chart")
load_workbook("budget.xlsx", data_only=True)["Budget"]["D5"].value`, ['=SUM(D2:D4) #,##0.00 €', '1 chart', '-27.5'], { most: 500 }),
		python(`from openpyxl import load_workbook
book = load_workbook("budget.xlsx")
book["Budget"]["C4"] = 200
book.save("budget 2.xlsx")
import pandas as pd
pd.read_excel("budget 2.xlsx")`, [/what\s+plan\s+spent\s+difference/, /trips\s+150\s+200/, 'budget 2.xlsx'], { most: 600 }),
	],
};

const tables: Job = {
	name: 'SQLite with joins',
	steps: [
		python(`import sqlite3
db = sqlite3.connect("shop.db")
db.executescript("""
create table customer(id integer primary key, name text not null);
create table purchase(id integer primary key, customer integer references customer, amount real, at text);
insert into customer values (1, 'Ada'), (2, 'Björn'), (3, 'Chloé');
insert into purchase(customer, amount, at) values (1, 10, '2025-01-03'), (1, 15.5, '2025-02-01'), (2, 7, '2025-02-11');
""")
db.commit()
for row in db.execute("select name, count(p.id), coalesce(sum(amount), 0) from customer c left join purchase p on p.customer = c.id group by c.id order by 3 desc"):
    print(row)`, ["('Ada', 2, 25.5)", "('Björn', 1, 7.0)", "('Chloé', 0, 0", 'shop.db'], { most: 500 }),
		shell('sqlite3 -box shop.db "select strftime(\'%m\', at) month, sum(amount) total, rank() over (order by sum(amount) desc) place from purchase group by 1"', ['month', /│ 02\s+│\s+22\.5 │\s+1 │/], { most: 500 }),
		python('import sqlite3\nsqlite3.connect("shop.db").execute("select nam from customer").fetchall()', ['sqlite3.OperationalError: no such column: nam'], { most: 600 }),
		python('import pandas as pd, sqlite3\npd.read_sql("select c.name, p.amount from purchase p join customer c on c.id = p.customer", sqlite3.connect("shop.db")).groupby("name").amount.mean()', [/Ada\s+12\.75/, /Björn\s+7\.0/], { most: 400 }),
		shell('sqlite3 shop.db "pragma integrity_check; .schema purchase"', ['ok'], { most: 500 }),
	],
};

const millions: Job = {
	name: 'a CSV of a million rows',
	steps: [
		python(`import numpy as np, pandas as pd
rng = np.random.default_rng(11)
n = 1_000_000
pd.DataFrame({"id": np.arange(n), "city": rng.choice(["Rome", "Oslo", "Lima"], n, p=[0.5, 0.3, 0.2]), "price": rng.gamma(2, 10, n).round(2)}).to_csv("prices.csv", index=False)`, ['prices.csv'], { most: 500 }),
		{ tool: 'sandbox_read_file', args: { path: '/mnt/data/prices.csv', end_line: 4 }, reads: ['id,city,price', '0,'], most: 600 },
		python('import pandas as pd\ndf = pd.read_csv("prices.csv")\ndf.info()\ndf.describe(include="all")', ['RangeIndex: 1000000 entries', 'Rome', 'mean'], { most: 1500 }),
		python('import pandas as pd\npd.read_csv("prices.csv")', ['1000000 rows'], { most: 1000 }),
		python('import duckdb\nprint(duckdb.sql("select city, count(*) n, round(avg(price), 1) mean from \'prices.csv\' group by city order by n desc"))', ['Rome', 'Oslo', 'Lima'], { most: 900 }),
		shell("wc -l prices.csv && tail -n +2 prices.csv | cut -d, -f2 | sort | uniq -c", ['1000001 prices.csv', 'Lima', 'Oslo', 'Rome'], { most: 400 }),
	],
};

const seasons: Job = {
	name: 'a time series with seasons',
	steps: [
		python(`import matplotlib.pyplot as plt, numpy as np, pandas as pd
from statsmodels.tsa.seasonal import seasonal_decompose
rng = np.random.default_rng(5)
months = pd.date_range("2018-01-01", periods=84, freq="MS")
sold = pd.Series(100 + 0.8 * np.arange(84) + 15 * np.sin(2 * np.pi * np.arange(84) / 12) + rng.normal(0, 2, 84), months, name="sold")
sold.to_csv("sold.csv")
parts = seasonal_decompose(sold, period=12)
print(parts.seasonal[:12].round(0).astype(int).tolist())
parts.plot()
print("trend a month", round(parts.trend.dropna().diff().mean(), 1))`, [/, 1[3-6], .*-1[3-6]/, 'trend a month 0.8', 'figure-1.png', 'sold.csv'], { pictures: 1, most: 800 }),
		python(`import pandas as pd
from statsmodels.tsa.holtwinters import ExponentialSmoothing
sold = pd.read_csv("sold.csv", index_col=0, parse_dates=True).asfreq("MS")["sold"]
ahead = ExponentialSmoothing(sold, trend="add", seasonal="add", seasonal_periods=12).fit().forecast(12)
print(ahead.round(1))
print(150 < ahead.mean() < 185, sold.resample("YE").mean().is_monotonic_increasing)`, ['2025-01-01', '2025-12-01', 'True True'], { most: 1000 }),
	],
};

const logs: Job = {
	name: 'regular expressions over logs',
	steps: [
		put('access.log', Array.from({ length: 400 }, (_, i) => `10.0.0.${i % 7} - - [05/Mar/2025:10:${String(Math.floor(i / 8)).padStart(2, '0')}:${String((i * 7) % 60).padStart(2, '0')} +0000] "GET /${['', 'login', 'api/items', 'img/ü.png'][i % 4]} HTTP/1.1" ${i % 50 === 3 ? 500 : i % 9 === 0 ? 404 : 200} ${100 + i}`).join('\n') + '\n'),
		python(`import collections, re
line = re.compile(r'(?P<ip>\\S+) .*?\\[(?P<at>[^]]+)\\] "(?P<verb>\\w+) (?P<path>\\S+)[^"]*" (?P<status>\\d{3}) (?P<bytes>\\d+)')
seen = [m.groupdict() for m in map(line.match, open("access.log")) if m]
print(len(seen), collections.Counter(s["status"] for s in seen).most_common())
print(collections.Counter(s["path"] for s in seen if s["status"] == "500"))`, ['400 [(', "('500', 8)", 'img/ü.png'], { most: 500 }),
		shell("rg -c ' 500 ' access.log; awk '$9 == 404 {n[$1]++} END {for (i in n) print n[i], i}' access.log | sort -rn | head -3; grep -oP '(?<=GET )\\S+' access.log | sort | uniq -c", ['8', '10.0.0.', '100 /'], { most: 500 }),
	],
};

const vision: Job = {
	name: 'shapes found with OpenCV',
	steps: [
		python(`import cv2, numpy as np
page = np.full((300, 420, 3), 255, np.uint8)
cv2.rectangle(page, (20, 40), (120, 140), (200, 0, 0), -1)
cv2.circle(page, (220, 90), 50, (0, 0, 200), -1)
cv2.fillPoly(page, [np.array([[300, 140], [400, 140], [350, 40]])], (0, 160, 0))
cv2.putText(page, "shapes", (20, 260), cv2.FONT_HERSHEY_SIMPLEX, 1.5, (0, 0, 0), 2)
cv2.imwrite("shapes.png", page)`, ['shapes.png'], { pictures: 1, most: 500 }),
		python(`import cv2
page = cv2.imread("shapes.png")
grey = cv2.cvtColor(page[:200], cv2.COLOR_BGR2GRAY)
found, _ = cv2.findContours(cv2.threshold(grey, 240, 255, cv2.THRESH_BINARY_INV)[1], cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
for c in sorted(found, key=lambda c: cv2.boundingRect(c)[0]):
    corners = len(cv2.approxPolyDP(c, 0.03 * cv2.arcLength(c, True), True))
    print(corners, cv2.boundingRect(c), int(cv2.contourArea(c)))
cv2.drawContours(page, found, -1, (0, 255, 255), 4)
cv2.imwrite("found.jpg", cv2.Canny(page, 50, 150))`, [/^4 \(20, 40, 101, 101\) 10000/m, /^8 /m, /^3 \(300, 40, 101, 101\)/m, 'found.jpg'], { pictures: 1, most: 600 }),
		python('import cv2\ncv2.imshow("page", cv2.imread("shapes.png"))', ['figure-1.png'], { pictures: 1, most: 500 }),
		shell('file shapes.png found.jpg', ['PNG image data, 420 x 300', 'JPEG image data'], { most: 500 }),
	],
};

const scraping: Job = {
	name: 'tables out of HTML and XML',
	steps: [
		put('page.html', `<!doctype html><html><head><meta charset=utf-8><title>Prices &amp; stock</title><script>var x = "<td>no</td>"</script></head><body><ul class="nav"><li><a href="/a?b=1&amp;c=2">A</a><li><a href="https://example.org/ü">Ü</a></ul>
<table id="t"><thead><tr><th>item<th>price<th>stock</thead><tr><td>lamp<td>1.299,50 €<td>3<tr><td>chair<td>89,00 €<td>0</table></body></html>`),
		put('feed.xml', '<?xml version="1.0"?>\n<feed xmlns="http://www.w3.org/2005/Atom"><title>News</title><entry><title>One</title><updated>2025-03-01T10:00:00Z</updated></entry><entry><title>Two</title><updated>2025-03-02T10:00:00Z</updated></entry></feed>\n'),
		python(`from bs4 import BeautifulSoup
page = BeautifulSoup(open("page.html"), "html.parser")
print(page.title.string, [a["href"] for a in page.select("ul.nav a")])
import pandas as pd
pd.read_html("page.html", attrs={"id": "t"}, decimal=",", thousands=".")[0]`, ["Prices & stock ['/a?b=1&c=2', 'https://example.org/ü']", /item\s+price\s+stock/, /lamp\s+1\.299,50 €\s+3/, /chair\s+89,00 €\s+0/], { most: 700 }),
		python(`from lxml import etree
feed = etree.parse("feed.xml")
ns = {"a": "http://www.w3.org/2005/Atom"}
print(feed.xpath("//a:entry/a:title/text()", namespaces=ns))
import xml.etree.ElementTree as ET
print(max(e.text for e in ET.parse("feed.xml").iter("{http://www.w3.org/2005/Atom}updated")))`, ["['One', 'Two']", '2025-03-02T10:00:00Z'], { most: 400 }),
	],
};

const shellTests: Job = {
	name: 'a shell script with tests',
	steps: [
		put('slug.sh', '#!/bin/bash\nset -eu\nslug() { printf "%s" "$1" | tr "[:upper:]" "[:lower:]" | sed -E "s/[^a-z0-9]+/-/g"; }\nif [ "${BASH_SOURCE[0]}" = "$0" ]; then slug "$1"; echo; fi\n'),
		put('test_slug.sh', '#!/bin/bash\n. ./slug.sh\nset +e\nfailed=0\ncheck() { if [ "$2" = "$3" ]; then echo "ok $1"; else echo "not ok $1: $2 instead of $3"; failed=1; fi; }\ncheck words "$(slug "Hello World")" hello-world\ncheck edges "$(slug " Trim me! ")" trim-me\nexit $failed\n'),
		shell('bash test_slug.sh', ['ok words', 'not ok edges: -trim-me- instead of trim-me'], { most: 400 }),
		shell(`sed -i 's|/-/g"; }|/-/g; s/^-\\|-$//g"; }|' slug.sh && bash -n slug.sh && bash test_slug.sh && chmod +x slug.sh && ./slug.sh "Größe 10"`, ['ok words', 'ok edges', /^gr-e-10$/m], { most: 500, never: [/not ok/] }),
		shell('for f in 1 2 3; do echo "step $f"; done; false', ['step 3', 'exit_code: 1'], { most: 300 }),
	],
};

const planning: Job = {
	name: 'optimisation',
	steps: [
		python(`from scipy.optimize import linprog, milp, LinearConstraint, Bounds, minimize, curve_fit
import numpy as np
diet = linprog([2, 3.5], A_ub=[[-3, -1], [-1, -4]], b_ub=[-9, -8])
print("diet", diet.x.round(3), round(diet.fun, 3))
bag = milp(-np.array([60, 100, 120]), constraints=LinearConstraint([[10, 20, 30]], ub=50), integrality=1, bounds=Bounds(0, 1))
print("bag", bag.x.round().astype(int), -bag.fun)
rosen = minimize(lambda v: (1 - v[0]) ** 2 + 100 * (v[1] - v[0] ** 2) ** 2, [-1, 2], method="BFGS")
print(rosen.success, rosen.x.round(2))
x = np.linspace(0, 4, 50)
curve_fit(lambda x, a, b: a * np.exp(-b * x), x, 2.5 * np.exp(-1.3 * x))[0].round(2)`, ['diet [2.545 1.364] 9.864', 'bag [0 1 1] 220', 'True [1. 1.]', 'array([2.5, 1.3])'], { most: 500 }),
	],
};

const algebra: Job = {
	name: 'symbols',
	steps: [
		python(`from sympy import *
x, y = symbols("x y")
print(integrate(x * exp(-x), (x, 0, oo)), limit(sin(x) / x, x, 0), factor(x**4 - 1))
print(solve([x + y - 3, x * y - 2], [x, y]))
f = Function("f")
print(dsolve(f(x).diff(x) - f(x), f(x)))
sorted(Matrix([[2, 1], [1, 2]]).eigenvals().items())`, ['1 1 (x - 1)*(x + 1)*(x**2 + 1)', '[(1, 2), (2, 1)]', 'Eq(f(x), C1*exp(x))', '[(1, 1), (3, 1)]'], { most: 500, never: [/\\displaystyle|\$\$/] }),
		python('from sympy import *\nx = symbols("x")\nIntegral(sqrt(1/x), x)', ['Integral(sqrt(1/x), x)'], { most: 500, never: [/\\displaystyle|\\int/] }),
	],
};

const routes: Job = {
	name: 'a graph and its shortest ways',
	steps: [
		python(`import matplotlib.pyplot as plt, networkx as nx
g = nx.Graph()
g.add_weighted_edges_from([("Bern", "Basel", 95), ("Bern", "Zürich", 125), ("Basel", "Zürich", 85), ("Zürich", "Chur", 120), ("Chur", "Lugano", 140)])
print(nx.shortest_path(g, "Basel", "Lugano", weight="weight"), nx.shortest_path_length(g, "Basel", "Lugano", weight="weight"))
print(sorted(nx.minimum_spanning_tree(g).edges), nx.is_planar(g))
print(max(nx.betweenness_centrality(g).items(), key=lambda i: i[1])[0])
nx.draw(g, nx.spring_layout(g, seed=1), with_labels=True)
plt.show()
nx.write_graphml(g, "roads.graphml")`, ["['Basel', 'Zürich', 'Chur', 'Lugano'] 345", 'True', /^Zürich$/m, 'figure-1.png', 'roads.graphml'], { pictures: 1, most: 800 }),
		python('import xml.etree.ElementTree as ET\nlen(list(ET.parse("roads.graphml").iter("{http://graphml.graphdrawing.org/xmlns}edge")))', ['5'], { most: 300 }),
	],
};

const archives: Job = {
	name: 'archives',
	steps: [
		shell('mkdir -p "photos 2025/raw" && for i in 1 2 3; do head -c 20000 /dev/urandom > "photos 2025/raw/$i.bin"; done && echo "Grüße" > "photos 2025/liesmich.txt" && zip -qr photos.zip "photos 2025" && tar czf photos.tar.gz "photos 2025" && tar cJf photos.tar.xz "photos 2025" && unzip -l photos.zip', ['photos 2025/raw/1.bin', '6 files', 'photos.tar.gz', 'photos.tar.xz', 'photos.zip'], { most: 2000 }),
		python(`import hashlib, pathlib, tarfile, zipfile
def sums(folder): return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(pathlib.Path(folder).rglob("*")) if p.is_file()}
zipfile.ZipFile("photos.zip").extractall("a")
for kind in ("gz", "xz"):
    with tarfile.open(f"photos.tar.{kind}") as t: t.extractall(kind, filter="data")
print(sums("a") == sums("gz") == sums("xz") == sums("photos 2025"), len(sums("a")))`, ['True 4'], { most: 2000 }),
		{ tool: 'sandbox_read_file', args: { path: '/mnt/data/photos.zip' }, reads: ['photos.zip'], never: [/PK\u0003/], most: 1200 },
		shell('head -c 1000 photos.zip > broken.zip; unzip -t broken.zip; python3 -c "import zipfile; zipfile.ZipFile(\'broken.zip\')"', [/zipfile\.BadZipFile/], { most: 1800 }),
		shell('7z x photos.zip', [/^Hint: The program 7z is not in this image\. Instead: unzip/], { most: 400 }),
	],
};

const formats: Job = {
	name: 'JSON, YAML, TOML and CSV',
	steps: [
		put('config.yaml', 'service:\n  name: Größe\n  ports: [80, 443]\n  on: true\nusers:\n  - {id: 1, tags: [a, b]}\n  - {id: 2, tags: []}\n'),
		python(`import csv, json, yaml
config = yaml.safe_load(open("config.yaml"))
json.dump(config, open("config.json", "w"), ensure_ascii=False, indent=1)
with open("users.csv", "w", newline="") as f:
    w = csv.writer(f); w.writerow(["id", "tags"]); w.writerows([u["id"], "|".join(u["tags"])] for u in config["users"])
print(config["service"])`, ["'name': 'Größe'", 'config.json', 'users.csv'], { most: 500 }),
		shell("jq -r '.users[] | [.id, (.tags|length)] | @csv' config.json && cat users.csv && jq '.service.name' config.json", ['1,2', '2,0', '1,a|b', '"Größe"'], { most: 400 }),
		python('import tomllib, pandas as pd\nprint(tomllib.loads("[a]\\nwhen = 2025-03-01\\nn = [1, 2]"))\npd.json_normalize([{"id": 1, "at": {"x": 1, "y": 2}}, {"id": 2, "at": {"x": 3}}])', ["'n': [1, 2]", /id\s+at\.x\s+at\.y/, 'NaN'], { most: 500 }),
		python('import json\njson.loads("{\'a\': 1}")', [/JSONDecodeError/, 'double quotes'], { most: 1200 }),
		python('import yaml\nyaml.safe_load("a: [1, 2\\nb: 3")', ['line 2'], { most: 1600 }),
	],
};

const iterating: Job = {
	name: 'errors mended one after another',
	steps: [
		put('data.csv', 'day;rain\n2025-01-01;3,5\n2025-01-02;0\n'),
		python('df = pd.read_csv("data.csv")', [/^Hint: Variables and imports are kept only/, "NameError: name 'pd'"], { most: 500 }),
		python('import pandas as pd\ndf = pd.read_csv("data.csv"', [/SyntaxError.*never closed/], { most: 500 }),
		python('import pandas as pd\ndf = pd.read_csv("data.csv")\ndf["rain"].mean()', ['KeyError', "'rain'"], { most: 1600 }),
		python('import pandas as pd\ndf = pd.read_csv("data.csv", sep=";", decimal=",")\nprint(df["rain"].mean())\nimport fpdf', [/^Hint: The module fpdf is not installed here: use sandbox_install_packages/, '1.75', 'ModuleNotFoundError'], { most: 600 }),
		python('from reportlab.pdfgen import canvas\nc = canvas.Canvas("rain.pdf")\nc.drawString(72, 720, "Mean rain: 1.75 mm")\nc.save()\nimport pdfplumber\npdfplumber.open("rain.pdf").pages[0].extract_text()', ['Mean rain: 1.75 mm', 'rain.pdf'], { most: 400 }),
		python('for i in range(3):\nprint(i)', ['line 2', 'IndentationError'], { most: 500 }),
		python('1 / 0', ['ZeroDivisionError: division by zero'], { most: 400, never: [/site-packages|\/usr\/lib/] }),
	],
};

const notebook: Job = {
	name: 'a figure that grows over stateful calls',
	steps: [
		python('import numpy as np, pandas as pd, matplotlib.pyplot as plt\ndf = pd.DataFrame({"x": np.arange(5), "y": np.arange(5) ** 2})\ndf.shape', ['(5, 2)'], { stateful: true, most: 400 }),
		python('fig, ax = plt.subplots(figsize=(4, 3))\nax.plot(df.x, df.y)\nfig', ['Figure size 400x300', 'figure-1.png'], { stateful: true, pictures: 1, most: 600 }),
		python('df["z"] = df.y.cumsum()\nax.plot(df.x, df.z, label="sum")\nax.legend()\nfig.savefig("both.png", dpi=80)\ndf.tail(2)', [/x\s+y\s+z/, /4\s+16\s+30/, 'both.png'], { stateful: true, pictures: 1, most: 600 }),
		python('def area(frame): return float(np.trapezoid(frame.y, frame.x))\narea(df)', ['22.0'], { stateful: true, most: 300 }),
		python('undefined_name', ['NameError'], { stateful: true, most: 400 }),
		python('from PIL import Image\nprint(Image.open("both.png").size, area(df), list(df))', ["(320, 240) 22.0 ['x', 'y', 'z']"], { stateful: true, most: 300 }),
		python('df', [/^Hint: Variables and imports are kept only/, 'NameError'], { most: 500 }),
	],
};

const report: Job = {
	name: 'a PDF report with a table of contents',
	steps: [
		python(`from reportlab.lib.pagesizes import A4
from reportlab.lib.styles import getSampleStyleSheet
from reportlab.platypus import BaseDocTemplate, Frame, PageBreak, PageTemplate, Paragraph, Table
from reportlab.platypus.tableofcontents import TableOfContents
style = getSampleStyleSheet()
class Report(BaseDocTemplate):
    def __init__(self, name):
        super().__init__(name, pagesize=A4, title="Yearly report")
        self.addPageTemplates(PageTemplate("page", Frame(60, 60, 475, 720)))
    def afterFlowable(self, flowable):
        if isinstance(flowable, Paragraph) and flowable.style.name == "Heading1":
            self.canv.bookmarkPage(flowable.getPlainText())
            self.canv.addOutlineEntry(flowable.getPlainText(), flowable.getPlainText())
            self.notify("TOCEntry", (0, flowable.getPlainText(), self.page, flowable.getPlainText()))
story = [Paragraph("Yearly report", style["Title"]), TableOfContents(), PageBreak()]
for chapter in ("Sales", "Überblick", "Costs"):
    story += [Paragraph(chapter, style["Heading1"]), Paragraph("Words about it. " * 60, style["BodyText"]), Table([["a", "b"], [1, 2]]), PageBreak()]
Report("report.pdf").multiBuild(story)`, ['report.pdf'], { most: 500 }),
		python(`from pypdf import PdfReader
pdf = PdfReader("report.pdf")
print(len(pdf.pages), [(o.title, pdf.get_destination_page_number(o) + 1) for o in pdf.outline], pdf.metadata.title)`, ["4 [('Sales', 2), ('Überblick', 3), ('Costs', 4)] Yearly report"], { most: 300 }),
		shell('pdfinfo report.pdf | grep -E "Pages|Title" && pdftotext -layout -l 1 report.pdf - && pdftotext -f 3 -l 3 report.pdf - | head -1 && pdftoppm -r 40 -png -f 1 -l 1 report.pdf front', [/Title:\s+Yearly report/, /Pages:\s+4/, /^\s*Sales\s+2$/m, /^\s*Überblick\s+3$/m, /^\s*Costs\s+4$/m, /^\f?Überblick$/m, /front-1\.png/], { pictures: 1, most: 700 }),
	],
};

const splitting: Job = {
	name: 'a long computation that is split',
	steps: [
		python('import time\ntotal = 0\nfor part in range(100):\n    time.sleep(0.1)\n    total += part\n    print("part", part, "done")\nprint(total)', [/^Hint: The run was ended after its 1 s\. Do less in one run, or give a larger timeout_s/, 'part 0 done', 'part 3 done'], { timeout_s: 1, most: 1800 }),
		...[0, 1].map((half) => python(`import json, os
total = json.load(open("total.json")) if os.path.exists("total.json") else 0
for part in range(${half * 50}, ${half * 50 + 50}):
    total += part
json.dump(total, open("total.json", "w"))
print(total)`, [half ? '4950' : '1225', 'total.json'], { timeout_s: 5, most: 300 })),
		shell('sleep 20', [/^Hint: The run was ended after its 1 s\./], { timeout_s: 1, most: 600 }),
		shell('cat total.json', ['4950'], { most: 300 }),
	],
};

export const daily: readonly Job[] = [learning, spectrum, slides, pages, branches, mending, letter, formulas, tables, millions, seasons, logs, vision, scraping, shellTests, planning, algebra, routes, archives, formats, iterating, notebook, report, splitting];
