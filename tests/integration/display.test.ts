// SPDX-License-Identifier: Apache-2.0
// Figures that a run draws and does not save, and what a notebook would show of a last expression.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { facts, using, type Json, type Session } from '../lib/session.ts';

const png = Buffer.from('89504e470d0a1a0a', 'hex');
const plot = 'import matplotlib.pyplot as plt\nplt.plot([1, 3, 2])\n';

interface Shown extends Json { names: string[]; pictures: number }
const run = async (s: Session, session_id: string, code: string, more: Json = {}): Promise<Shown> => {
	const r = await s.raw('sandbox_run_python', { code, session_id, ...more });
	const said = facts(r);
	assert.ok(!said.error, r.content[0]!.text);
	const blocks = r.content.filter((c) => c.type === 'image');
	for (const b of blocks)
		assert.ok(b.mimeType !== 'image/png' || Buffer.from(b.data, 'base64').subarray(0, 8).equals(png));
	return { ...said, names: said.artifacts.map((a: Json) => a.filename).sort(), pictures: blocks.length };
};
const quiet = (r: Shown, said?: RegExp): void => {
	assert.deepEqual([r.exit_code, r.stdout, r.reason], [0, '', 'exited']);
	assert.match(r.stderr, said ?? /^$/);
};

const cases: [name: string, code: string, names: string[], stderr?: RegExp][] = [
	['an open figure is saved', plot, ['figure-1.png']],
	['plt.show() shows', plot + 'plt.show()', ['figure-1.png']],
	['what was shown stays shown when it is closed', plot + 'plt.show()\nplt.close()', ['figure-1.png']],
	['what was closed without a show is not wanted', plot + 'plt.close()', []],
	['one that is shown twice is saved once', plot + 'plt.show()\nplt.show()', ['figure-1.png']],
	['one that is shown and then the value is saved once', 'import matplotlib.pyplot as plt\nfig, ax = plt.subplots()\nax.plot([1, 3, 2])\nplt.show()\nfig', ['figure-1.png']],
	['one that is saved and then the value is saved once', 'import matplotlib.pyplot as plt\nfig, ax = plt.subplots()\nax.plot([1, 3, 2])\nfig.savefig("mine.png")\nfig', ['mine.png']],
	['Pillow: show()', 'from PIL import Image\nImage.new("CMYK", (9, 9)).show()', ['figure-1.png']],
	...([['as it is', 'p.save("g.png")', ['g.png']], ['as JPEG', 'p.save("g.jpg")', ['g.jpg']], ['in another folder', 'p.save("/tmp/g.png")', ['figure-1.png']], ['and turned', 'p.save("g.png")\np = p.rotate(90)', ['figure-1.png', 'g.png']]] as const).map(([what, save, names]): [string, string, string[]] =>
		[`Pillow: a picture that was saved ${what}`, `from PIL import Image\np = Image.linear_gradient("L")\n${save}\np.show()\np`, [...names]]),
	['OpenCV: a picture that was written', 'import cv2, numpy as np\np = np.arange(300, dtype="uint8").reshape(10, 10, 3)\ncv2.imwrite("g.png", p)\ncv2.imshow("w", p)', ['g.png']],
	['a picture that a command has made', '!printf "P1 2 2 1 0 0 1" >p.pbm; ffmpeg -loglevel error -i p.pbm p.png\nfrom PIL import Image\nImage.open("p.png")', ['p.pbm', 'p.png']],
	['IPython: a picture of this run', plot + 'plt.savefig("c.png"); plt.close()\nfrom IPython.display import Image\nImage("c.png")', ['c.png']],
	['IPython: a picture of no file', plot + 'import io\nb = io.BytesIO(); plt.savefig(b, format="jpg"); plt.close()\nfrom IPython.display import Image\nImage(b.getvalue())', ['result-1.jpg']],
	['Pillow: letters of every language without a font', `from PIL import Image, ImageDraw, ImageFont
import pickle
def look(text, **more):
    picture = Image.new("L", (60, 60))
    ImageDraw.Draw(picture).text((5, 5), text, fill=255, **more)
    return picture.tobytes()
font = ImageFont.load_default(24)
plain = ImageFont.FreeTypeFont(__import__("io").BytesIO(font.font_bytes), 24, layout_engine=font.layout_engine)
for more in {}, {"font": ImageFont.load_default()}, {"font": font}, {"font_size": 24}, {"font": font.font_variant(size=30)}, {"font": pickle.loads(pickle.dumps(font))}:
    assert len({look(c, **more) for c in "öäüñЖЩΩλ中文日本한글עשกข"}) == 18, more
assert look("Hello", font=font) == look("Hello", font=plain) and font.getlength("中文") > font.getlength("一") and font.getbbox("ö") != font.getbbox("Ö")`, []],
	['Pillow: letters that no font has together', `from PIL import Image, ImageDraw, ImageFont
def look(text, font, **more):
    picture = Image.new("L", (400, 90))
    ImageDraw.Draw(picture).text((200, 45), text, fill=255, font=font, **more)
    return picture
for font in ImageFont.load_default(24), ImageFont.truetype("DejaVuSans.ttf", 24):
    words = "हिन्दी", "中文", "📊", "✅", " ok"
    assert len({look("हि" + c, font).tobytes() for c in "中文😀✅📊"}) == 5
    assert abs(font.getlength("".join(words)) - sum(map(font.getlength, words))) < 3
    for anchor in None, "mm", "rs", "lb", "ma":
        box = ImageDraw.Draw(Image.new("L", (400, 90))).textbbox((200, 45), "".join(words), font, anchor)
        seen = look("".join(words), font, anchor=anchor).getbbox()
        assert all(abs(a - b) < 3 for a, b in zip(box, seen)), (anchor, box, seen)`, []],
	['Pillow: a letter that no font has', 'from PIL import Image, ImageDraw\nfor i in range(2): ImageDraw.Draw(Image.new("L", (60, 60))).text((5, 5), "a中 \\U00012000")', [], /^Note: no font here has the letter '\\U00012000' of a text that Pillow draws: it is a box\.\n$/],
	['Pillow: fonts of other systems', `from PIL import Image, ImageDraw, ImageFont
def look(text, font):
    picture = Image.new("L", (90, 60))
    ImageDraw.Draw(picture).text((5, 5), text, fill=255, font=font)
    return picture.tobytes()
faces = [ImageFont.truetype(n, 24).getname() for n in ("arial.ttf", "C:/Windows/Fonts/arialbd.ttf", "/System/Library/Fonts/Times.ttc", "cour.ttf", "Roboto-Bold.ttf")]
assert faces == [("DejaVu Sans", "Book"), ("DejaVu Sans", "Bold"), ("DejaVu Serif", "Book"), ("DejaVu Sans Mono", "Book"), ("DejaVu Sans", "Bold")], faces
for name in "simhei.ttf", "DejaVuSans.ttf", "msyh.ttc":
    font = ImageFont.truetype(name, 24)
    assert len({look(c, f) for c in "öЖ中文日本한글עשกข" for f in (font, font.font_variant(size=30))}) == 24, name
try: ImageFont.truetype("my-own.ttf")
except OSError as e: print(e, end="")
try: ImageFont.truetype("/mnt/data/arial.ttf")
except OSError as e: assert str(e) == "cannot open resource"
assert look("Hello", ImageFont.truetype("DejaVuSans.ttf", 24)) == look("Hello", ImageFont.FreeTypeFont("/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf", 24))`.replace('print(e, end="")', 'assert str(e) == "cannot open resource"'), [], /^Note: the font arial\.ttf is not here: DejaVu draws in its place[^\n]*\n$/],
	['matplotlib: files of fonts of other systems', 'import matplotlib.pyplot as plt, matplotlib.font_manager as fm\nfm.fontManager.addfont("C:/Windows/Fonts/simhei.ttf")\nplt.title("中文", fontproperties=fm.FontProperties(fname="/System/Library/Fonts/PingFang.ttc"))\nplt.show()', ['figure-1.png'], /^Note: the font C:\/Windows\/Fonts\/simhei\.ttf is not here[^\n]*\n$/],
	['matplotlib: LaTeX', 'import matplotlib.pyplot as plt\nplt.rcParams["text.usetex"] = True\nplt.plot([1, 2])\nplt.title(r"$x^2$")\nplt.savefig("t.png")', ['t.png'], /^Note: LaTeX is not in this image: [^\n]*\n$/],
	['matplotlib: LaTeX, shown', 'import matplotlib.pyplot as plt\nplt.rcParams["text.usetex"] = True\nplt.plot([1, 2])\nplt.show()', ['figure-1.png']],
	['OpenCV: windows', 'import cv2, numpy as np\ncv2.namedWindow("w")\ncv2.imshow("w", np.ones((9, 9)))\nwhile cv2.waitKey(1) & 0xFF != ord("q"): pass\nwhile cv2.waitKey(1) != 27: pass\ncv2.destroyAllWindows()', ['figure-1.png']],
	['one that has changed since is shown again', plot + 'plt.show()\nplt.plot([3, 1])\nplt.show()', ['figure-1.png', 'figure-2.png']],
	['what tools put into folders of packages is no result', 'import os\nfor folder in "node_modules/a", "v/lib/site-packages", "own":\n    os.makedirs(folder)\n    open(folder + "/x.txt", "w").close()', ['x.txt']],
	['a saved one is saved once', plot + 'plt.savefig("mine.png")\nplt.show()', ['mine.png']],
	['one that the code has drawn and saved elsewhere too', plot + 'import io\nplt.gcf().savefig(io.BytesIO(), format="svg")', []],
	['several', 'import matplotlib.pyplot as plt\nfor i in range(3):\n    plt.figure(); plt.plot([i, 1])', ['figure-1.png', 'figure-2.png', 'figure-3.png']],
	['an empty one is none', 'import matplotlib.pyplot as plt\nplt.figure()', []],
	['names of the code are left alone', 'open("figure-1.png", "w").write("mine")\nimport os\nos.symlink("/nowhere", "figure-2.png")\n' + plot + 'import atexit\natexit.register(lambda: print(end=""))', ['figure-1.png', 'figure-3.png']],
	['no pyplot, nothing', 'import sys\nassert "Finder" not in repr(sys.modules)', []],
	['sys.exit(0) is a good end', plot + 'import sys\nsys.exit(0)', ['figure-1.png']],
	['a huge one is made smaller', 'import matplotlib.pyplot as plt\nf = plt.figure(figsize=(400, 300), dpi=300)\nf.add_subplot().plot([1])', ['figure-1.png']],
	['another folder', 'import os\nos.chdir("/tmp")\n' + plot, ['figure-1.png']],
	['(slow) drawing that never ends costs the picture', 'import matplotlib.figure as m\nclass F(m.Figure):\n    def draw(self, *a):\n        while True: pass\n' +
		'import matplotlib.pyplot as plt\nplt.figure(FigureClass=F).add_subplot()', []],
	['drawing that fails costs the picture, and is told', 'import matplotlib.pyplot as plt\nplt.title("$\\\\nothing_such{$")', [], /^Note: a figure could not be drawn: ValueError: [^\n]+\n$/],
	['drawing that ends the process', 'import matplotlib.figure as m, os\nclass F(m.Figure):\n    def draw(self, *a): os._exit(3)\n' +
		'import matplotlib.pyplot as plt\nplt.figure(FigureClass=F).add_subplot()', []],
	['the child is nobody\'s business', 'import signal\nsignal.signal(signal.SIGCHLD, lambda *a: print("child"))\n' + plot + 'plt.show()\nassert signal.getsignal(signal.SIGCHLD) is not None', ['figure-1.png']],
	['plotly: show()', 'import plotly.graph_objects as go\nf = go.Figure(go.Bar(y=[1, 2]))\nf.show()\nf.show()\nassert open("figure-1.html").read().count("Plotly.newPlot")\nf', ['figure-1.html']],
	['plotly: a dictionary, and a last expression that was shown', 'import plotly.io as pio, plotly.graph_objects as go\npio.show({"data": [{"type": "bar", "y": [3]}]})\ngo.Figure(go.Bar(y=[4]))', ['figure-1.html', 'result-1.html']],
	['with threads', 'import threading, time\nthreading.Thread(target=time.sleep, args=(30,), daemon=True).start()\n' + plot, ['figure-1.png']],
];

for (const warm of ['on', 'off'])
	matrixOnce(`${warm === 'off' ? '(slow) ' : ''}display, warm ${warm}`, { SANDBOX_WARM: warm, SANDBOX_MAX_SESSIONS: '60' }, (s) => {
		// a cold run imports pyplot first: seconds each, so the first ones stand for all
		for (const [i, [name, code, names, said]] of cases.slice(0, warm === 'on' ? undefined : 7).entries())
			it(name, async () => {
				const r = await run(s(), `c${i}`, code);
				quiet(r, said);
				assert.deepEqual(r.names, names);
			});
		it('(slow) pictures come with the answer', async () => assert.equal((await run(s(), 'pictures', plot)).pictures, 1));
		it('a picture of an earlier run is shown again as a value', async () => {
			await run(s(), 'earlier', plot + 'plt.savefig("c.png")');
			const value = await run(s(), 'earlier', 'from IPython.display import Image\nImage("c.png")');
			assert.deepEqual([value.names, value.pictures, value.result], [['result-1.png'], 1, '<IPython.core.display.Image object>'], JSON.stringify(value));
		});
		it('a picture of an earlier run is shown by display()', async () => {
			const old = async (name: string): Promise<void> => void await run(s(), 'old', `from PIL import Image\nImage.linear_gradient("L").save("${name}")`);
			for (const [name, show] of [['a', 'display(Image("a.png"))'], ['b', 'display(Image(filename="b.png"), "text")'], ['c', 'from PIL import Image\ndisplay(Image.open("c.png"))']] as const) {
				await old(`${name}.png`);
				const r = await run(s(), 'old', `from IPython.display import Image, display\n${show}`);
				assert.equal(r.pictures, 1, `${show}: ${JSON.stringify(r)}`);
			}
			const both = await run(s(), 'old', 'from PIL import Image as P\nfrom IPython.display import Image, display\nP.linear_gradient("L").rotate(90).save("new.png")\ndisplay(Image("new.png"))');
			assert.deepEqual([both.names, both.pictures], [['new.png'], 1], 'one of this run is shown once');
		});
		it('a failing run is not made to look better', async () => {
			const r = await run(s(), 'fails', plot + '1 / 0');
			assert.deepEqual([r.exit_code, r.names], [1, []]);
			assert.match(r.stderr, /^Traceback \(most recent call last\):\n {2}File "<string>", line 3, in <module>\n/);
		});
		it('no frame of ours is in a traceback', async () => {
			const r = await run(s(), 'traceback', plot + 'plt.savefig("/nowhere/x.png")');
			assert.deepEqual([...r.stderr.matchAll(/File "(<[^"]*>)"/g)].map((m) => m[1]), ['<string>']);
		});
	});

/** As matrix(), over stdio alone and with one server. */
function matrixOnce(name: string, env: Record<string, string>, body: (s: () => Session) => void): void {
	describe(name, { concurrency: false }, () => {
		let session: Session, end: () => void;
		const ended = new Promise<void>((resolve) => (end = resolve));
		let done: Promise<void>;
		before(() => new Promise<void>((resolve, reject) => {
			done = using('stdio', { profile: 'full', env }, async (s) => {
				session = s;
				resolve();
				await ended;
			});
			done.catch(reject);
		}));
		after(() => (end(), done));
		body(() => session);
	});
}

matrixOnce('programs that were written for a desktop', {}, (s) => {
	it('(slow) a backend with windows draws into files, in runs and in scripts', async () => {
		const note = (name: string): RegExp => new RegExp(`^Note: the backend ${name} needs a screen or a notebook[^\n]*\n$`);
		for (const [id, code, backend] of [['tk', 'import matplotlib\nmatplotlib.use("TkAgg")\n' + plot + 'plt.show()', 'TkAgg'], ['qt', plot.replace('plt.plot', 'plt.switch_backend("Qt5Agg")\nplt.plot'), 'Qt5Agg']] as const) {
			const r = await run(s(), id, code);
			assert.deepEqual([r.exit_code, r.names], [0, ['figure-1.png']], r.stderr);
			assert.match(r.stderr, note(backend));
		}
		const script = facts(await s().raw('sandbox_run_shell', { command: `printf 'import matplotlib.pyplot as plt\\nplt.plot([1])\\nplt.show()\\nplt.savefig("own.png")\\nprint("ok")\\n' >own.py; MPLBACKEND=TkAgg python3 own.py`, session_id: 'script' }));
		assert.deepEqual([script.exit_code, script.stdout], [0, 'ok\n'], script.stderr);
	});
	it('(slow) old names of styles', async () => quiet(await run(s(), 'style', 'import matplotlib.pyplot as plt\nfor name in "seaborn", "seaborn-whitegrid", "seaborn-darkgrid": plt.style.use(name)')));
	it('(slow) letters of all large scripts, with the font families of other systems', async () => {
		const letters = '日本語 한국어 Жук Ωμέγα العربية עברית हिन्दी বাংলা தமிழ் తెలుగు ไทย ខ្មែរ ქართული Հայերեն አማርኛ ✅❌😀🥰🫠';
		const r = await run(s(), 'letters', `import matplotlib.pyplot as plt\nfor family in None, "SimHei", "Microsoft YaHei", "PingFang SC", "Malgun Gothic", "MS Gothic", "Hiragino Sans", "Arial", "Helvetica", "Times New Roman", "Courier New":\n    plt.title("${letters}", family=family)\n    plt.savefig("own.png")`);
		quiet(r);
	});
	it('(slow) a PDF of reportlab has the letters and emoji that were drawn, and syllables of India and South-East Asia as they are written', async () => {
		const lines = ['Report 📊 ✅ 🥰', 'हिन्दी क्षत्रिय', 'আমি বাংলায় গান গাই।', 'தமிழ் நெல்லை கொடு', 'ශ්‍රී ලංකාව', 'ไทย น้ำ', 'ខ្មែរ', 'မြန်မာ', 'ქართული', 'Հայերեն', 'አማርኛ', '中文 日本語 한국어', 'Tiếng Việt'];
		quiet(await run(s(), 'pdf', `from reportlab.lib.styles import getSampleStyleSheet
from reportlab.pdfgen import canvas
from reportlab.pdfbase.pdfmetrics import stringWidth
from reportlab.platypus import Paragraph, SimpleDocTemplate
import pypdf
lines = ${JSON.stringify(lines)}
page = canvas.Canvas("a.pdf")
for i, line in enumerate(lines):
    page.setFont("Times-Bold" if i % 2 else "Helvetica", 14)
    page.drawString(72, 780 - 30 * i, line)
page.save()
SimpleDocTemplate("b.pdf").build([Paragraph("<b>%s</b>" % line, getSampleStyleSheet()["Normal"]) for line in lines])
for name in "a.pdf", "b.pdf":
    text = pypdf.PdfReader(name).pages[0].extract_text()
    assert [line for line in lines if line not in text] == [], (name, text)
for word in "क्षत्रिय", "ខ្មែរ":
    assert stringWidth(word, "Helvetica", 12) < 0.9 * sum(stringWidth(c, "Helvetica", 12) for c in word), word`));
	});
	it('(slow) Arabic and Hebrew come as they are read, unless the program sees to it', async () => {
		const text = 'import matplotlib.pyplot as plt\nt = plt.title("שלום")\nplt.savefig("own.svg")\nprint(t._preprocess_math(t.get_text())[0])';
		assert.equal((await run(s(), 'order', text)).stdout, 'םולש\n');
		assert.equal((await run(s(), 'order', `import bidi.algorithm\n${text}`)).stdout, 'שלום\n');
		assert.match((await run(s(), 'order', text.replace('שלום', 'سلام'))).stdout, /^[\ufe70-\ufeff]+\n$/);
	});
	it('(slow) locales and time zones', async () => {
		const r = await run(s(), 'locale', 'import locale, datetime, zoneinfo, pytz\nnames = set()\nfor name in "de_DE.UTF-8", "en_US.UTF-8", "fr_FR.UTF-8", "es_ES.UTF-8", "zh_CN.UTF-8", "ja_JP.UTF-8", "pt_BR.UTF-8", "it_IT.UTF-8", "ru_RU.UTF-8", "ko_KR.UTF-8", "hi_IN.UTF-8", "de_DE", *[n + ".UTF-8" for n in "vi_VN bn_BD sr_RS hr_HR sk_SK ro_RO bg_BG lt_LT lv_LV et_EE sl_SI ur_PK ta_IN te_IN mr_IN gu_IN ms_MY fil_PH sw_KE ka_GE hy_AM km_KH my_MM am_ET".split()]:\n    locale.setlocale(locale.LC_ALL, name)\n    names.add(datetime.date(2025, 3, 4).strftime("%A"))\nassert len(names) > 30, names\nlocale.setlocale(locale.LC_ALL, "de_DE")\nprint(datetime.date(2025, 3, 4).strftime("%A %B"), locale.format_string("%.2f", 12345.678, grouping=True), zoneinfo.ZoneInfo("Europe/Berlin"), pytz.timezone("Asia/Tokyo"))');
		assert.deepEqual([r.exit_code, r.stdout], [0, 'Dienstag März 12.345,68 Europe/Berlin Asia/Tokyo\n'], r.stderr);
	});
});

matrixOnce('display in sessions', {}, (s) => {
	const cell = (id: string, code: string): Promise<Shown> => run(s(), id, code, { stateful: true });
	it('(slow) a cell shows what it has drawn, and the next one begins anew', async () => {
		assert.deepEqual((await cell('saved', 'import matplotlib.pyplot as plt\nfig, ax = plt.subplots()\nax.plot([1, 2])\nfig.savefig("mine.png")\nfig')).names, ['mine.png']);
		assert.deepEqual((await cell('saved', 'fig')).names, ['result-1.png']); // of a later run, it is asked for again
		assert.deepEqual((await cell('cells', plot + 'None')).names, ['figure-1.png']);
		assert.deepEqual((await cell('cells', 'plt.get_fignums()')).result, '[]');
		const r = await cell('cells', 'plt.plot([2, 1])\nNone');
		assert.deepEqual([r.names, r.pictures], [['figure-2.png'], 1]);
	});
	it('the picture of a value', async () => {
		const r = await cell('value', 'class P:\n    def __repr__(self): return "P()"\n    def _repr_png_(self):\n        import io, matplotlib.image as m, numpy\n        b = io.BytesIO(); m.imsave(b, numpy.zeros((2, 2))); return b.getvalue()\nP()');
		assert.deepEqual([r.result, r.names, r.pictures], ['P()', ['result-1.png'], 1]);
		const f = await cell('value', 'from matplotlib.figure import Figure\nf = Figure(); f.add_subplot().plot([1, 2]); f');
		assert.deepEqual([f.names, f.pictures], [['result-2.png'], 1]);
	});
	it('HTML is a file; a table has its text', async () => {
		const r = await cell('html', 'class H:\n    def _repr_html_(self): return "<b>x</b>"\nH()');
		assert.deepEqual(r.names, ['result-1.html']);
		assert.equal((await cell('html', 'open("result-1.html").read()')).result, "'<b>x</b>'");
		assert.deepEqual((await cell('html', 'import pandas; pandas.DataFrame({"a": [1]})')).names, []);
	});
	it('only a value that has more than its text costs a fork', async () => {
		await cell('forks', 'import os\nforks = []\nos.register_at_fork(before=lambda: forks.append(1))');
		const forks = async (code: string): Promise<number> => {
			await cell('forks', 'forks.clear()');
			await cell('forks', code);
			return Number((await cell('forks', 'len(forks)')).result);
		};
		const statement = await forks('x = 1');
		for (const value of ['1', '"text"', '[1, 2]', 'import pandas; pandas.DataFrame({"a": [1]})', 'pandas.Series([1])', 'object()'])
			assert.equal(await forks(value), statement, value);
		assert.equal(await forks('class P:\n    def _repr_svg_(self): return "<svg/>"\nP()'), statement + 1);
		assert.match((await cell('forks', 'open("result-1.svg").read()')).result, /<svg/);
	});
	const hostile: [name: string, method: string][] = [
		['raises', 'raise ValueError'], ['exits', 'import os; os._exit(1)'], ['never returns', 'import time; time.sleep(1000)'], ['gives a number', 'return 5'],
		['gives what is no picture', 'return b"no picture"'], ['gives far too much', 'return b"\\x89PNG\\r\\n\\x1a\\n" + bytes(300 << 20)'], ['kills itself', 'import os; os.kill(os.getpid(), 9)'],
	];
	for (const [name, body] of hostile)
		it(`(slow) a _repr_png_ that ${name} costs nothing but itself`, async () => {
			const r = await cell('hostile', `x = 1\nclass P:\n    def __repr__(self): return "P()"\n    def _repr_png_(self): ${body}\nP()`);
			assert.deepEqual([r.result, r.names, r.exit_code, r.state, r.stderr], ['P()', [], 0, 'kept', '']);
		});
});

describe('SANDBOX_SAVE_FIGURES', () => {
	for (const [profile, setting, names] of [['code', undefined, []], ['code', 'on', ['figure-1.png']], ['full', 'off', []]] as const)
		it(`profile ${profile}, ${setting ?? 'default'}`, () => using('stdio', { profile, env: { SANDBOX_SAVE_FIGURES: setting } }, async (s) => {
			assert.deepEqual((await run(s, 'x', plot + 'plt.show()')).names, names);
		}));
});
