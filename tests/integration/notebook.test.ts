// SPDX-License-Identifier: Apache-2.0
// Code as models write it for a notebook: values, await, !command, %magic; and what they read when it fails. Profile `full`, REST
// and `caisson run` have this; the exact profiles do not.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { LoggingMessageNotificationSchema } from '@modelcontextprotocol/sdk/types.js';
import { newStateDir, unlessEnforced } from '../lib/env.ts';
import { facts, using, type Json, type Session } from '../lib/session.ts';

interface Expect { result?: string; stdout?: string | RegExp; stderr?: string | RegExp; code?: number; hint?: RegExp; living?: RegExp }
const at = (line: number, text: string): RegExp => new RegExp(`File "<(string|cell \\d+)>", line ${line}, in <module>\\n {4}${text}`);

/** Each row: what it is, the code, what comes back. Streams are empty and the exit code is 0 unless a row says otherwise. */
const b64 = (text: string): string => Buffer.from(text, 'latin1').toString('base64');
const rows: [name: string, code: string, expect: Expect][] = [
	['a last expression', 'x = 40\nx + 2', { result: '42' }],
	['a semicolon', '5;', {}],
	['a semicolon and a comment', '5 ; # five', {}],
	['brackets', '(\n1 +\n2\n)', { result: '3' }],
	['None', 'print("a")', { stdout: 'a\n' }],
	['a table', 'import pandas as pd\npd.DataFrame({"a": [1, 2]})', { result: '   a\n0  1\n1  2' }],
	['await', 'import asyncio\nasync def f():\n    await asyncio.sleep(0)\n    return 7\nx = await f()\nx + await f()', { result: '14' }],
	['async for and with', 'import contextlib\n@contextlib.asynccontextmanager\nasync def c(): yield 3\nasync def g():\n    yield 1\nasync with c() as n:\n    async for i in g(): print(n, i)', { stdout: '3 1\n' }],
	['a task that is left', 'import asyncio\nasync def f():\n    try: await asyncio.sleep(99)\n    finally: print("ended")\nt = asyncio.create_task(f()) if False else None\nawait asyncio.sleep(0)', {}],
	['asyncio.run beside await', 'import asyncio\nasync def f(): return 1\nasyncio.run(f())', { result: '1' }],
	['an error behind await', 'async def f():\n    return 1 / 0\n\nawait f()', { code: 1, stderr: /^Traceback \(most recent call last\):\n {2}File "<[^>]+>", line 4, in <module>\n {4}await f\(\)\n {2}File "<[^>]+>", line 2, in f\n {4}return 1 \/ 0\n.*\nZeroDivisionError: division by zero\n$/ }],
	['!command', '!echo one; echo two', { stdout: 'one\ntwo\n' }],
	['values in a command', 'x = "a b"\nn = 3\n!echo "{x}" $n {n + 1} $HOME {', { stdout: 'a b 3 4 /home/sandbox {\n' }],
	['the lines of a command', 'x = !printf "a\\nb\\n"\nx', { result: "['a', 'b']" }],
	['a command in a block, and a long one', 'for i in (1, 2):\n    !echo {i} \\\n       more\nlen("x")', { stdout: '1 more\n2 more\n', result: '1' }],
	['a command that fails', '!exit 3\n_exit_code', { stderr: 'Note: the command ended with exit status 3.\n', result: '3' }],
	['strings and brackets stay', 's = """\n!not\n%not\n"""\n!true\ns, [7\n%4]', { result: "('\\n!not\\n%not\\n', [3])" }],
	['a progress bar is read in its last state', 'import sys\nfor i in range(3): print(f"\\r\\033[Kstep {i}/2", end="")\nprint("\\nouter 0\\n\\rinner 1\\033[A\\router 1")', { stdout: 'step 2/2\nouter 1\ninner 1' }],
	['one that moves to the first column, and one with backspaces', 'import sys\nfor i in range(30): sys.stdout.write("\\033[2K\\033[1Gstep %d" % i)\nfor i in range(30): sys.stdout.write(("\\n" if i == 0 else "") + "%d%%" % i + "\\b" * 9)\nfor c in "|/-" * 9: sys.stdout.write(("\\nturn " if c == "|" and i else "") + c + "\\b"); i = 0\nprint("ed")', { stdout: '[29 earlier states of this line] step 29\n29%\nturn ed\n' }],
	['a long one, and what is printed around it', 'import sys\nfor i in range(20000): sys.stderr.write(f"\\rprogress {i + 1}/20000")\nfor i in range(20000): sys.stderr.write(f"{chr(10) if i == 0 else chr(13)}second {i + 1}/20000")\nsys.stderr.write("\\nend\\n");', { stderr: '[19999 earlier states of this line] progress 20000/20000\n[19999 earlier states of this line] second 20000/20000\nend\n' }],
	['a long one with backspaces', 'import sys\nn = 0\nfor i in range(9000):\n    s = "step %d/9000" % (i + 1)\n    sys.stdout.write("\\b" * n + "\\r" + s); n = len(s)\nprint()', { stdout: '[8999 earlier states of this line] step 9000/9000\n' }],
	['states behind a line that is too long to be kept back', 'import sys\nsys.stdout.write("x" * 60000 + "\\n" + "y" * 2000 + "\\rz\\n"); sys.stdout.write("\\r1\\r2\\r3\\n");', { stdout: /\nz\n3\n$/ }],
	['colours, titles, links and a hidden cursor', 'print("\\033[1;31mred\\033[0m \\033]0;title\\aa \\033]8;;http://x/\\033\\\\link\\033]8;;\\033\\\\ \\033(B\\033[?25lend\\033[?25h\\033[38;5;9m\\033[m")', { stdout: 'red a link end\n' }],
	['colours of errors', 'import sys\nprint("\\033[31m" * 300 + "x", file=sys.stderr)\n"\\033[1mbold\\033[0m"', { stderr: 'x\n', result: "'\\x1b[1mbold\\x1b[0m'" }],
	['a screen that is cleared', 'print("a\\nb\\n\\033[H\\033[2J\\033[3Jc")', { stdout: '[the screen was cleared here: 2 earlier lines are not shown]\nc\n' }],
	['a screen that is drawn again', 'for i in range(3): print("\\033[Hload %d   \\ntop %d\\033[J" % (i, 9 - i))', { stdout: 'load 2   \ntop 7\n' }],
	['an escape character that begins nothing', 'print("a\\033", "b\\033[", "c\\033]0;no end", sep="\\n")', { stdout: 'a\nb\nc]0;no end\n' }],
	['widgets are text', 'import ipywidgets as w\nfrom IPython.display import display\np = w.IntProgress(value=0, max=3, description="Load")\ndisplay(w.HBox([p]))\nfor i in range(3): p.value += 1\n@w.interact(x=(0, 10), y=["a", "b"])\ndef f(x=3, y="b"): print(x, y)\ns = w.IntSlider(value=4)\ns.observe(lambda change: print(change["new"], change.name), names="value")\ns.value = 5\nwith w.Output(): print("within")', { stdout: "IntProgress(description='Load', value=0)\nLoad 3/3\n3 b\n5 value\nwithin\n" }],
	['tqdm for notebooks is text', 'from tqdm.notebook import tqdm, trange\nimport tqdm.auto as a, ipywidgets\nsum(tqdm(range(3))) + sum(trange(3)) + sum(a.tqdm(range(3)))', { result: '9', stderr: /^(100%[^\n\r]*3\/3[^\n\r]*\n){3}$/ }],
	['%matplotlib', '%matplotlib inline\n1', { result: '1', stderr: 'Note: %matplotlib means nothing outside a notebook; it was ignored.\n' }],
	['an unknown magic', '1\n%sql select 1', { code: 1, stderr: /line 2, in <module>\n {4}%sql select 1\nNameError: %sql is a magic of notebooks that does not exist here/ }],
	['%%time', '%%time\nx = 2\nx + 1', { result: '3', stdout: /^CPU time: .* s, wall time: .* s\n$/ }],
	['%%time below a comment', '# how long\n\n%%time\nx = 2\nx + 1', { result: '3', stdout: /^CPU time: .* s, wall time: .* s\n$/ }],
	['%%time below code', 'import math\nx = [math.pi,\n  2 %\n1]\n%%time\ny = 1 / 0', { code: 1, stderr: /^Note: %%time is not the first line of the code: it was taken for the lines below it\.\nTraceback[^]*line 5, in <module>[^]*line 6, in <module>\n {4}y = 1 \/ 0/ }],
	['%%writefile below a magic', '!echo one\n%%writefile /tmp/below.txt\ntwo\n', { stdout: 'one\nWrote /tmp/below.txt\n', stderr: /^Note: %%writefile is not the first line/ }],
	['%% in a text stays', 's = """\n%%time\n"""\n!true\nlen(s)', { result: '8' }],
	['%%bash', '%%bash\nfor i in 1 2; do echo $i; done', { stdout: '1\n2\n' }],
	['%%writefile', '%%writefile made.txt\nline\n', { stdout: 'Wrote made.txt\n' }],
	['%cd and %pwd', '%cd /tmp\nx = %pwd\n%cd /mnt/data\nx', { stdout: '/tmp\n/mnt/data\n', result: "'/tmp'" }],
	['%cd -', '%cd /tmp\n%cd -', { stdout: '/tmp\n/mnt/data\n' }],
	['the names of the lines of a command', 'x = !printf "a\\nb\\n"\nx.n, x.s, x.l, x[0]', { result: "('a\\nb', 'a b', ['a', 'b'], 'a')" }],
	['%%script of another program', '%%script python3 -S\nprint(1 + 1)', { stdout: '2\n' }],
	['%%perl', '%%perl\nprint 6 * 7, "\\n"; exit 3', { stdout: '42\n', stderr: 'Note: the command ended with exit status 3.\n' }],
	['%%script bash', '%%script bash\necho $((6 * 7))', { stdout: '42\n' }],
	['%%timeit with a line before', '%%timeit -n 1 -r 1 y = [3]\ny[0]', { stdout: /^\S+ s for each of \d+ loops \(best of 3\)\n$/ }],
	['%%sql', '%%sql\nselect 1', { code: 1, stderr: /NameError: %%sql is a magic of notebooks that does not exist here: duckdb\.sql\(/ }],
	['name?', 'import math\nmath.sqrt?', { stdout: 'sqrt(x, /)\nReturn the square root of x.\n' }],
	['!pip install of what is there', '!pip install numpy\nimport numpy', { stdout: /^Requirement already satisfied: numpy in .* \(\d/ }],
	['!pip install with a version that is not in quotes', '!pip install -q numpy>=1.20,<99 2>&1\npip install numpy>=1.20\nimport os\n[n for n in os.listdir() if n[0] == "="]', { result: '[]', stdout: /^Requirement already satisfied: numpy>=1\.20 in .* \(\d[^\n]*\n$/ }],
	['a program of another system', '!conda install -y numpy\n1', { result: '1', stderr: /conda: /, hint: /^The program conda is not in this image\. Instead: install Python packages with sandbox_install_packages/ }],
	['pip install of what is not', 'pip install nosuchthing\nimport nosuchthing', { code: 1, stderr: /sandbox_install_packages/, hint: /nosuchthing is not installed here/ }],
	['line numbers after a command', '!true\n\n!true\n1 / 0', { code: 1, stderr: at(4, '1 / 0') }],
	['a line with a command fails by its own text', 'def f():\n    raise KeyError(1)\n!true\nf()', { code: 1, stderr: at(4, 'f\\(\\)') }],
	['no Python', '!true\nx = = 3', { code: 1, stderr: /^ {2}File "<[^>]+>", line 2\n {4}x = = 3\n {8}\^\nSyntaxError: invalid syntax\n$/ }],
	['return outside a function', 'x = 1\nreturn x', { code: 1, stderr: /line 2\n {4}return x\n.*\nSyntaxError: 'return' outside function/ }],
	['sys.exit', 'import sys\nsys.exit("bye")', { code: 1, stderr: 'bye\n' }],
	['an excepthook of its own', 'import sys\nh, sys.excepthook = sys.excepthook, lambda *a: print("mine", sys.__dict__.update(excepthook=h))\n1 / 0', { code: 1, stdout: 'mine None\n' }],
	['a file that is not there', 'open("sales.csv", "w").close()\nopen("/data/Sales.csv")', { code: 1, stderr: /^Hint: \/mnt\/data\/sales\.csv may be meant\. \/mnt\/data has: (made\.txt, )?sales\.csv\.\nTraceback/ }],
	...([['glob', 'import glob\nprint(glob.glob("/content/*.csv"), glob.glob("/content/*"))', '/content'], ['glob through folders', 'import glob\nprint(glob.glob("/kaggle/input/**/*.csv", recursive=True), [])', '/kaggle/input'], ['os.walk()', 'import os\nprint(list(os.walk("/kaggle/input")), [])', '/kaggle/input'],
		['pathlib', 'from pathlib import Path\nprint(list(Path("/content/drive").glob("*.csv")), list(Path("/content").rglob("*")))', '/content/drive']] as const).map(([what, code, folder]): [string, string, Expect] =>
		[`a folder of another system, by ${what}`, code, { stdout: '[] []\n', stderr: new RegExp(`^Note: there is no folder ${folder} here\\. Files are in /mnt/data, which is the working folder\\. /mnt/data has: [^\\n]*sales\\.csv[^\\n]*\\.\\n$`) }]),
	['folders of this system', 'import glob, os\nfrom pathlib import Path\nlen(glob.glob("/mnt/data/sales.*")), glob.glob("nosuch/*"), list(Path("/tmp/nosuch").glob("*")), list(os.walk("/nosuch"))', { result: '(1, [], [], [])' }],
	['files beside the program', 'import os\nfrom pathlib import Path\nHERE = Path(__file__).parent\n(HERE / "beside.csv").write_text("x")\ndef here(): return os.path.dirname(os.path.abspath(__file__))\nopen("beside.csv").read(), open(HERE / "sales.csv").read(), here(), "def here" in open(__file__).read()', { result: "('x', '', '/mnt/data', True)" }],
	['a program that is not there', 'import subprocess\nsubprocess.run(["nosuchprogram"])', { code: 1, stderr: /^Hint: the program nosuchprogram is not in this sandbox\.\nTraceback/ }],
	['a place that is read-only', 'open("/out.csv", "w")', { code: 1, stderr: /^Hint: files are written in \/mnt\/data / }],
	['Excel as text', 'import pandas as pd\npd.DataFrame({"a": [1]}).to_excel("t.xlsx")\npd.read_csv("t.xlsx")', { code: 1, stderr: /^Hint: t\.xlsx is an Excel workbook: read it with pandas\.read_excel\(\)\.\nTraceback[^]*line 3[^]*\[\.\.\. \d+ more frames in pandas; the whole traceback is in \/tmp\/\.caisson\/traceback\.txt \.\.\.\]/ }],
	['the whole traceback is there', 'print(open("/tmp/.caisson/traceback.txt").read().count("pandas") > 4)', { stdout: 'True\n' }],
	['Parquet as JSON', 'import pandas as pd, json\npd.DataFrame({"a": [1]}).to_parquet("t.parquet")\njson.load(open("t.parquet"))', { code: 1, stderr: /^Hint: t\.parquet is a Parquet file/ }],
	['a PDF as text', 'open("t.pdf", "wb").write(b"%PDF-1.7\\n\\xe2\\xe3")\nopen("t.pdf").read()', { code: 1, stderr: /^Hint: t\.pdf is a PDF: read it with / }],
	['text that is not UTF-8', 'open("l.txt", "wb").write(b"caf\\xe9 au lait")\nopen("l.txt").read()', { code: 1, stderr: /^Hint: l\.txt is not UTF-8 but perhaps cp1252 \(70 % sure\): read it with encoding="cp1252", and look whether letters with accents come out right\.\n/ }],
	['Russian text as pandas reads it', 'import pandas as pd\nopen("r.csv", "wb").write("Имя;Город\\nИван;Москва\\n".encode("cp1251"))\npd.read_csv("r.csv", sep=";")', { code: 1, stderr: /^Hint: r\.csv is not UTF-8 but most likely cp1251 \(9\d % sure\): read it with encoding="cp1251"\.\n/ }],
	['Japanese text', 'open("j.txt", "wb").write("名前,都市\\n田中,東京\\n".encode("shift_jis"))\nopen("j.txt").read()', { code: 1, stderr: /^Hint: j\.txt is not UTF-8 but perhaps shift_jis / }],
	['Polish text without a file', '"Zażółć gęślą jaźń".encode("cp1250").decode()', { code: 1, stderr: /^Hint: the text is not UTF-8 but perhaps cp1250 / }],
	['no detector', 'import sys\nsys.modules["chardet"] = sys.modules["charset_normalizer"] = None\nb"caf\\xe9 au lait".decode()', { code: 1, stderr: /^Hint: the text is not UTF-8, and nothing in this image can tell what it is: / }],
	['a folder that is not there', 'open("out/picture.svg", "w")', { code: 1, stderr: /^Hint: the folder out does not exist: os\.makedirs\(\) makes one\. / }],
	['a column that is not there', 'import pandas as pd\npd.DataFrame({"Amount": [1], "City": [2]})["amount"]', { code: 1, stderr: /^Hint: the columns of this table are 'Amount', 'City'\.\nTraceback[^]*KeyError: 'amount'\n$/ }],
	...([['a semicolon', ';', 'df["units"].sum()', 'KeyError'], ['a tab', '\\t', 'df.groupby("units").sum()', 'KeyError'], ['a bar', '|', 'df.units', 'AttributeError'], ['a semicolon, in polars', ';', 'import polars\npolars.read_csv("sep.csv")["units"]', 'ColumnNotFoundError'], ['a semicolon, in csv', ';', 'import csv\nrows = list(csv.DictReader(open("sep.csv")))\nrows[0]["units"]', 'KeyError']] as const).map(([what, sep, use, error]): [string, string, Expect] =>
		[`the separator is ${what}`, `import pandas as pd\nopen("sep.csv", "w").write("name${sep}units\\n1${sep}2\\n")\ndf = pd.read_csv("sep.csv")\n${use}`, { code: 1, stderr: new RegExp(`^Hint: [^\\n]*'name${sep.replace(/[|\\]/g, (c) => `\\${c}`)}units': the separator is [^\\n]*sep='[^\\n]*\\n[^]*${error}`) }]),
	...([['JSON lines', 'lines.json', '{"a": 1}\\n{"a": 2}\\n', 'import json\njson.load(open("lines.json"))', 'lines\\.json is JSON lines, .*lines=True'], ['JSON lines, in pandas', 'lines.json', '{"a": 1}\\n{"a": 2}\\n', 'pd.read_json("lines.json")', 'lines\\.json is JSON lines, .*lines=True'], ['JSON lines that were read', 'lines.json', '{"a": 1}\\n{"a": 2}\\n', 'import json\ndef f(text): return json.loads(text)\nf(open("lines" + ".json").read())', 'lines\\.json is JSON lines, '],
		['JSON of Python', 'python.json', "{'a': True}", 'import json\njson.load(open("python.json"))', 'python\\.json is no JSON but a literal of Python .*ast\\.literal_eval'], ['HTML as Excel', 'page.xls', '<html><table><tr><td>1</td></tr></table></html>', 'pd.read_excel("page.xls")', 'page\\.xls is an HTML page: read it with pandas\\.read_html'], ['text as Excel', 'text.xls', 'a\\tb\\n1\\t2\\n', 'pd.read_excel("text.xls")', 'text\\.xls is text with .* between columns: read it with pandas\\.read_csv\\(path, sep=\'\\\\t'],
		['CSV as Excel', 'c.xlsx', 'a,b\\n1,2\\n', 'import openpyxl\nopenpyxl.load_workbook("c.xlsx")', 'c\\.xlsx is text with \',\' between columns'], ['an old workbook as a new one', 'old.xlsx', '\\xd0\\xcf\\x11\\xe0\\xa1\\xb1', 'import openpyxl\nopenpyxl.load_workbook("old.xlsx")', 'old\\.xlsx is an old Office file'], ['half a workbook', 'half.xlsx', 'PK\\x03\\x04xl/', 'pd.read_excel("half.xlsx")', 'half\\.xlsx is damaged or incomplete'],
		['CSV as Parquet', 'c.parquet', 'a,b\\n1,2\\n', 'pd.read_parquet("c.parquet")', 'c\\.parquet is text with'], ['CSV as Parquet, in duckdb', 'c.parquet', 'a,b\\n1,2\\n', 'import duckdb\nduckdb.sql("from \'c.parquet\'")', 'c\\.parquet is text with'], ['CSV as gzip', 'c.csv.gz', 'a,b\\n1,2\\n', 'pd.read_csv("c.csv.gz")', 'c\\.csv\\.gz is text with'], ['gzip as CSV', 'z.csv', '\\x1f\\x8b\\x08\\x00', 'pd.read_csv("z.csv")', 'z\\.csv is gzip data'],
		['HTML as a picture', 'p.png', '<!DOCTYPE html><p>', 'from PIL import Image\nImage.open("p.png")', 'p\\.png is an HTML page'], ['HTML as CSV', 'h.csv', '<!DOCTYPE html><p>', 'pd.read_csv("h.csv")["a"]', '[^\\n]*the file is an HTML page, no CSV']] as const).map(([what, name, text, use, hint]): [string, string, Expect] =>
		[what, `import pandas as pd\nopen("${name}", "w", encoding="latin-1").write("""${text}""")\n${use}`, { code: 1, stderr: new RegExp(`^Hint: ${hint}`) }]),
	...([['Parquet', 'import pandas as pd\npd.DataFrame({"a": range(999)}).to_parquet("cut")\ncut()\npd.read_parquet("cut")', 'cut is a Parquet file that is damaged or incomplete, '], ['a picture', 'from PIL import Image\nImage.linear_gradient("L").save("cut", "png")\ncut()\nImage.open("cut").load()', 'cut is a PNG picture that is damaged'],
		['a pickle', 'import pickle\npickle.dump(list(range(999)), open("cut", "wb"))\ncut()\npickle.load(open("cut", "rb"))', 'cut is a pickle that is damaged'], ['gzip', 'import gzip, os\ngzip.open("cut", "wb").write(os.urandom(9999))\ncut()\ngzip.open("cut").read()', 'cut is gzip data that is damaged'],
		['a database', 'import sqlite3\nc = sqlite3.connect("cut")\nc.execute("create table t(a)")\nc.executemany("insert into t values(?)", [(i,) for i in range(9999)])\nc.commit()\nc.close()\ncut()\nsqlite3.connect("cut").execute("select sum(a) from t").fetchall()', 'cut is an SQLite database that is damaged'],
		['an array', 'import numpy\nnumpy.save(open("cut", "wb"), numpy.arange(999))\ncut()\nnumpy.load("cut")', 'cut is a NumPy array that is damaged'], ['JSON', 'import json\njson.loads(\'[{"a": "b"}, {"a": "\')', 'the JSON ends in the middle: '], ['a file of nothing', 'import pickle\nopen("cut", "w").close()\npickle.load(open("cut", "rb"))', 'cut is empty']] as const).map(([what, code, hint]): [string, string, Expect] =>
		[`a file that was cut: ${what}`, `import os\nos.path.exists("cut") and os.remove("cut")\ndef cut():\n    os.path.exists("cut") and os.truncate("cut", os.path.getsize("cut") * 6 // 10)\n${code}`, { code: 1, stderr: new RegExp(`(^|\n)Hint: ${hint}`) }]),
	['the same error is shown once', 'import pandas as pd\npd.DataFrame({"a": [1]})["b"]', { code: 1, stderr: /^(?![^]*direct cause)[^]*KeyError: 'b'\n$/ }],
	['a row that is not there', 'import pandas as pd\npd.DataFrame({"a": [1]}).loc["b"]', { code: 1, stderr: /^Traceback/ }],
	['a key of a dict', '{}["a"]', { code: 1, stderr: /^Traceback/ }],
	...([['raw_input("x")', 'Python 3 has input\\(\\) instead'], ['{}.has_key(1)', 'Python 3 has `key in d` instead'], ['from sklearn.externals import joblib', 'joblib is a package of its own'], ['import Image', 'The module Image is not installed here\\. It is a part of Pillow']] as const).map(([code, hint]): [string, string, Expect] =>
		[`an old name: ${code}`, code, { code: 1, stderr: /Traceback/, hint: new RegExp(`^${hint}`) }]),
	['an event loop as old programs take it', 'import asyncio\nasync def f(): return 5\nloop = asyncio.get_event_loop()\nloop.run_until_complete(f())', { result: '5' }],
	['a mistyped module', 'import pandsa', { code: 1, stderr: /^Hint: the module pandas may be meant, which is installed\.\nTraceback/, hint: /^The module pandsa is not installed here, pandas is\. Only if the name is right, / }],
	['a package of another name', 'import fitz', { code: 1, stderr: /^Traceback/, hint: /^The module fitz is not installed here: use sandbox_install_packages with the package pymupdf\.$/ }],
	['a module of a package', 'import os.nosuch', { code: 1, stderr: /^Traceback/, hint: /^os is installed here and has no module nosuch: .* no package of that name to install\./ }],
	['a module in a folder that is not there', 'import google.generativeai as genai', { code: 1, stderr: /^Traceback/, hint: /^The module google\.generativeai is not installed here: use sandbox_install_packages with the package google-generativeai\.$/ }],
	['a name from such a folder', 'def f():\n    from google.cloud import bigquery\nf()', { code: 1, stderr: /^Traceback/, hint: /^The module google\.cloud\.bigquery is not installed here: .* the package google-cloud-bigquery\.$/ }],
	['a folder of which nobody knows the package', 'from google.nosuch import thing', { code: 1, stderr: /^Traceback/, hint: /\(the package will have another name\)\.$/ }],
	['a module that no package has', 'from google.colab import files', { code: 1, stderr: /^Traceback/, hint: /^The module google\.colab is not installed here\. Only Colab has it/ }],
	['a file of the program\'s own', 'import helpers', { code: 1, stderr: /^Traceback/, hint: /^The module helpers is not installed here\. It looks like a file of your own/ }],
	['plotly as a picture', 'import plotly.graph_objects as go\ngo.Figure().write_image("f.png")', { code: 1, stderr: /^Hint: plotly needs a browser for pictures/ }],
	['Arabic by reportlab', 'from reportlab.pdfgen import canvas\nc = canvas.Canvas("a.pdf")\nfor text in "one", "\u0645\u0631\u062d\u0628\u0627", "\u05e9\u05dc\u05d5\u05dd": c.drawString(99, 99, text)\nc.save()', { code: 0, stderr: /^Note: reportlab draws Arabic and Hebrew as they are stored.*get_display\(arabic_reshaper\.reshape\(line\)\).*TTFont\("DejaVu", "\/usr\/share\/fonts\/\S+\.ttf"\)\)\.\n$/ }],
	['Arabic by reportlab in order', 'import arabic_reshaper\nfrom bidi.algorithm import get_display\nfrom reportlab.pdfgen import canvas\nc = canvas.Canvas("b.pdf")\nfor text in "\u0645\u0631\u062d\u0628\u0627", "\u05e9\u05dc\u05d5\u05dd": c.drawString(99, 99, get_display(arabic_reshaper.reshape(text)))\nc.save()', { code: 0, stderr: '' }],
	['Arabic by fpdf2', 'raise ValueError("Character \\"\u0645\\" at index 0 in text is outside the range of characters supported by the font used: \\"helvetica\\".")', { code: 1, stderr: /^Hint: the standard fonts of a PDF have Latin letters only: pdf\.add_font\("Letters", fname="\/usr\/share\/fonts\/\S+\.ttf"\), then pdf\.set_font\("Letters"\)\. For Arabic and Hebrew also pdf\.set_text_shaping\(True\)\.\nTraceback/ }],
	['fences of Markdown', 'Here it is:\n```python\nx = 4\n1 / 0\n```', { code: 1, stderr: /^Note: the code had fences of Markdown \(```\), and ran without\.\nTraceback[^]*line 4, in <module>\n {4}1 \/ 0/ }],
	['fences within a text stay', 'x = """\n```\n1\n```\n"""\ny = = 3', { code: 1, stderr: /^ {2}File "<[^>]+>", line 6\n/ }],
	['prompts', '>>> x = 4\n>>> print(x)\n4\n>>> x', { stdout: '4\n', result: '4', stderr: 'Note: the code had prompts (>>>), and ran without.\n' }],
	['line ends as text', 'import math\\nprint("a\\\\n", end="")\\nmath.floor(2.5)', { stdout: 'a\n', result: '2', stderr: 'Note: the code had line ends written as \\n, and ran without.\n' }],
	['typographic quotes and blanks', 'x\u00a0= \u201ca \u2013 b\u201d\nprint\uff08x\uff09', { stdout: 'a \u2013 b\n', stderr: 'Note: the code had typographic characters, and ran without.\n' }],
	['all lines are indented', '    x = 4;\n    x', { result: '4' }],
	['%%capture', '%%capture out\nprint("kept")\n1', {}],
	['names of IPython', 'from IPython.display import Audio, Video, YouTubeVideo, display_html\nfrom IPython.core.interactiveshell import InteractiveShell\nInteractiveShell.ast_node_interactivity = "all"\nget_ipython().enable_gui("qt")\ndisplay_html("<b>", raw=True)\nYouTubeVideo("x")', { result: '<IPython.core.display.YouTubeVideo object>', stderr: 'Note: only the value of the last expression is shown here: print() the others.\n' }],
	['modules of other sandboxes', 'import nest_asyncio, asyncio, ace_tools as tools, pandas as pd\nnest_asyncio.apply()\nasync def f(): return 3\ntools.display_dataframe_to_user(name="Sales", dataframe=pd.DataFrame({"a": [1]}))\nasyncio.run(f())', { stdout: 'Sales\n   a\n0  1\n', result: '3' }],
	['the backend of notebooks', 'import matplotlib\nmatplotlib.use("module://matplotlib_inline.backend_inline")\nget_ipython()\nimport matplotlib.pyplot as plt\nfrom matplotlib_inline.backend_inline import set_matplotlib_formats\nset_matplotlib_formats("retina")\nplt.ion()\nplt.ioff()\nplt.figure()\nplt.close()\nmatplotlib.use("agg")', {}],
	['a figure that cannot be drawn', 'import matplotlib.pyplot as plt\nplt.plot([1])\nplt.title(r"$\\nosuch{x}$")\nplt.show()', { stderr: /^Note: a figure could not be drawn: ValueError: [^\n]*Unknown symbol: \\nosuch[^\n]*\n$/ }],
	...([['prices that are drawn', '$5 to $7', 'plt.show()', 'the text \'\\$5 to \\$7\' has been drawn as a formula:'], ['prices in a picture that is saved', 'Revenue ($) and profit ($)', 'plt.savefig("prices.png")', 'the text \'Revenue[^\\n]* has been drawn as a formula:'],
		['prices that cannot be drawn', '$ 5% to $7', 'plt.show()', 'a figure could not be drawn: ValueError: [^\\n]*Parse\\w*Exception: [^\\n]*']] as const).map(([what, title, show, note]): [string, string, Expect] =>
		[what, `import matplotlib.pyplot as plt\nplt.plot([1])\nplt.title("${title}")\nplt.ylabel("$x$, $a b$, $10^3$5, \\\\$4 to \\\\$5")\n${show}`, { stderr: new RegExp(`^Note: ${note} matplotlib reads what stands between two \\$ as mathematics: write \\\\\\$ for a dollar sign\\.\n$`) }]),
	['mathematics is no price', 'import matplotlib.pyplot as plt\nplt.plot([1])\nplt.title(r"$x$, $a b$, $10^3$5, \\$4 to \\$5, $R^2$ of $\\alpha$ and $\\mathrm{a b}$2")\nplt.show()', {}],
	['prices that cannot be laid out', 'import matplotlib.pyplot as plt\nplt.plot([1])\nplt.title("$ 5% to $7")\ntry: plt.tight_layout()\nfinally: plt.close("all")', { code: 1, stderr: /^Traceback/, hint: /^matplotlib reads text between two \$ as mathematics: write \\\$ for a dollar sign\.$/ }],
	['a page that does not say that it is UTF-8', 'import pandas as pd\nfor name, head in ("silent", ""), ("told", \'<meta charset="utf-8">\'):\n    open(name + ".html", "w").write(f"<html>{head}<table><tr><th>ä</th></tr><tr><td>ö</td></tr></table>")\n    print(len(pd.read_html(name + ".html")[0].columns[0]))\nprint(pd.read_html("silent.html", encoding="utf-8")[0].columns[0])', { stdout: '2\n1\nä\n', stderr: 'Note: this page does not say that it is UTF-8, and is read as Latin-1: give pandas.read_html() encoding="utf-8".\n' }],
	['formulas without values', 'import openpyxl\nw = openpyxl.Workbook()\nw.active["A1"] = "=1+1"\nw.save("formula.xlsx")\nprint(openpyxl.load_workbook("formula.xlsx", data_only=True).active["A1"].value, openpyxl.load_workbook("formula.xlsx").active["A1"].value)', { stdout: 'None =1+1\n', stderr: /^Note: formulas of this workbook have no values[^\n]*\n$/ }],
	['pip as a function', 'import pip\npip.main(["install", "numpy"])', { result: '0', stdout: /^Requirement already satisfied: numpy in / }],
	['no network for a command', '!curl -sS https://example.com\n1', { result: '1', stderr: /^curl: .*\nNote: the command ended with exit status \d+\.\n$/, hint: /^The sandbox has no network\./ }],
	...([['decimal commas', 'df["a"].mean()', 'a\\n"1.234,5"\\n"6,7"\\n', 'the numbers have decimal commas: [^\\n]*decimal=",", thousands="\\."'], ['commas between thousands', 'df["a"].astype(int)', 'a\\n"1,234"\\n', 'the numbers have commas between thousands: '], ['decimal commas and signs', 'df["a"].astype(float)', 'a\\n"1.234,50 €"\\n', 'the numbers have decimal commas and signs: '], ['signs of currencies', 'df["a"].astype(float)', 'a\\n$5.10\\n', 'the numbers have signs: '],
		['a title above the table', '', 'Report\\nof May\\na,b,c\\n1,2,3\\n', 'the header seems to be in line 3 of n\\.csv: read the file with skiprows=2\\.'],
		...([['a title with a comma', 'Report, May 2024\\nby, us, all\\n\\na,b,c,d\\n1,2,3,4\\n5,6,7,8\\n', '', 'the header seems to be in line 4 of n\\.csv: read the file with skiprows=3\\.'], ['a title and semicolons', 'Report\\nby;us\\n\\na;b;c\\n1;2,5;3\\n4;5,5,5;6\\n', '', "the header seems to be in line 4 of n\\.csv: read the file with skiprows=3, sep=';'\\."],
			['a title that became the column', 'Report 2024\\n\\na,b,c\\n1,2,3\\n', 'df["b"]', "the columns of this table are 'Report 2024': the header seems to be in row 0 of it, below a title: read the file with header=1\\."], ['a title with empty cells', 'Report 2024,,\\n,,\\na,b,c\\n1,2,3\\n', 'df.groupby("b").sum()', '[^\\n]*: the header seems to be in row 1 of it, below a title: read the file with header=2\\.'],
			['a title above another separator', 'Report 2024\\nby us\\n\\na;b;c\\n1;2;3\\n', 'df.b', "[^\\n]*: the header seems to be in row 1 of it, below a title: read the file with header=2, sep=';'\\."], ['a title in a workbook', 'a\\n1\\n', 'pd.DataFrame([["Report", None], [None, None], ["a", "b"], [1, 2]]).to_excel("n.xlsx", index=False, header=False)\npd.read_excel("n.xlsx")["b"]', '[^\\n]*: the header seems to be in row 1 of it, below a title: read the file with header=2\\.']] as const).map(([what, text, use, hint]) => [what, use, text, hint] as const), ['a separator, and more of it in the data', '', 'a;b\\n1;2\\n1,5;2,5\\n', "the separator is ';'"], ['a long line', '', 'a,b\\n1,2\\n1,2,3\\n', 'line 3 has 3 fields, [^\\n]*on_bad_lines="skip"'], ['blanks between the columns', 'df["b"]', 'a   b\\n1   2\\n', '[^\\n]*sep=r"\\\\s\\+"'],
		['blanks in names', 'df["b"]', 'a, b\\n1,2\\n', "the columns of this table are 'a', ' b': df\\.columns = df\\.columns\\.str\\.strip\\(\\)"], ['a column of groups', 'df.groupby("a")["x"]', 'a,b\\n1,2\\n', "the columns of this table are 'a', 'b'\\."], ['columns of a file', 'pd.read_csv("n.csv", usecols=["x"])', 'a,b\\n1,2\\n', "the first line of n\\.csv is 'a,b'\\."],
		['a sheet', 'df.to_excel("n.xlsx", sheet_name="One")\npd.read_excel("n.xlsx", sheet_name="Two")', 'a\\n1\\n', "the sheets are 'One'\\."], ['a sheet, in openpyxl', 'import openpyxl\nopenpyxl.load_workbook("n.xlsx")["Two"]', 'a\\n1\\n', "the sheets are 'One'\\."], ['a byte order mark', 'import csv\nrow = next(csv.DictReader(open("n.csv")))\nrow["a"]', '\\ufeffa,b\\n1,2\\n', '[^\\n]*encoding="utf-8-sig"'],
		['a folder of another system', 'open("/content/other.txt")', 'a\\n1\\n', 'files are in /mnt/data here'], ['a font', 'open("/System/Library/Fonts/x.ttc")', 'a\\n1\\n', 'this font is not here'], ['XML of Excel', 'open("old.xls", "w").write(\'<?xml version="1.0"?><Workbook xmlns="urn:schemas-microsoft-com:office:spreadsheet"><Table></Table></Workbook>\')\npd.read_excel("old.xls")', 'a\\n1\\n', 'old\\.xls is a workbook in the XML of Excel 2003'],
		['polars and Latin letters', 'import polars, sys\nfor n in "chardet", "charset_normalizer": sys.modules.pop(n, None)\nopen("l.csv", "wb").write("a,b\\nJ\\u00fcrgen,K\\u00f6ln\\n\\u00c4nne,D\\u00fcsseldorf\\n".encode("cp1252"))\npolars.read_csv("l.csv")', 'a\\n1\\n', 'l\\.csv is not UTF-8 but [^\\n]*encoding="cp1252"'], ['a document that is not there', 'import docx\ndocx.Document("m.docx")', 'a\\n1\\n', '/mnt/data has: ']] as const).map(([what, use, text, hint]): [string, string, Expect] =>
		[what, `import pandas as pd\nopen("n.csv", "w").write("""${text.replace(/"""/g, '')}""")\ndf = pd.read_csv("n.csv")\n${use}`, { code: 1, stderr: new RegExp(`^Hint: ${hint}`) }]),
	...([['a name of an old matplotlib', 'import matplotlib.pyplot as plt\ntry: plt.grid(b=True)\nfinally: plt.close("all")', /^matplotlib has grid\(visible=True\)/], ['a module of Python 2', 'import StringIO', /^The module StringIO is not installed here\. Only Python 2 has it\./], ['a name of an old NumPy', 'import numpy\nnumpy.trapz([1])', /^NumPy 2 has np\.trapezoid/], ['a name of an old pandas', 'import pandas as pd\npd.DataFrame().append({})', /^pandas 2 removed append\(\)/], ['a font of Pillow', 'from PIL import ImageFont\nImageFont.truetype("own-face.ttf", 9)', /^This font is not here: ImageFont\.truetype\("DejaVuSans\.ttf"/], ['a command line', 'import argparse\np = argparse.ArgumentParser()\np.add_argument("file")\np.parse_args()', /^There is no command line here: give the words to parse_args/],
		['words of a command line', 'import sys\nsys.argv[1]', /^There is no command line here: set the values/], ['a debugger', 'breakpoint()', /^Nobody answers the debugger here/], ['a time zone', 'import zoneinfo\nzoneinfo.ZoneInfo("Europe/Nowhere")', /^There is no such time zone/], ['a package that needs a browser', 'import playwright', /^The module playwright is not installed here\. It needs a browser/], ['a module with the name of another', 'import xarray', /^The module xarray is not installed here: use sandbox_install_packages with the package xarray\./]] as const).map(([what, code, hint]): [string, string, Expect] =>
		[what, code, { code: what === 'a command line' ? 2 : 1, stdout: /^/, stderr: /^(?!Hint)/, hint }]),
	['an import that was forgotten', 'bisect.bisect([], 1)', { code: 1, stderr: /Did you forget to import 'bisect'\?\n$/ }],
	['no network is short', 'import urllib.request\nurllib.request.urlopen("https://example.com")', { code: 1, stderr: /^Traceback .*\n  File "<(?:string|cell \d+)>", line 2, in <module>\n(.*\n){1,2}  \[\.\.\. \d+ more frames in Python; .*\]\nurllib\.error\.URLError: <urlopen error .*>\n$/, hint: /^The sandbox has no network\./ }],
	['a network that is not there is short', 'import urllib.request\nurllib.request.urlopen("http://10.9.8.7/")', { code: 1, stderr: /^Traceback .*\n  File "<(?:string|cell \d+)>", line 2, in <module>\n(.*\n){1,2}  \[\.\.\. \d+ more frames in Python; .*\]\nurllib\.error\.URLError: <urlopen error .*>\n$/, hint: /^The sandbox has no network\./ }],
	['no memory', 'import numpy\nnumpy.ones(1 << 45)', { code: 1, stderr: /Unable to allocate/, hint: /^The sandbox ran out of memory \(it has \d+ MiB\)/ }],
	['a background process', 'import subprocess\np = subprocess.Popen(["sleep", "99"])', { hint: /^A background process of this run was ended with it/, living: /^Threads and processes that are left rest now/ }],
	['a server in a daemon thread', 'import http.server, threading\ns = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)\nthreading.Thread(target=s.serve_forever, daemon=True).start()', { stderr: /^(Note: the server on port \d+ ended with this run, as daemon threads do\.\n)?$/, hint: /^sandbox_process with action start keeps a server running/, living: /^Threads and processes that are left rest now, [^]*sandbox_process keeps one running all the time\.$/ }],
	['a server that the program has ended', 'import http.server, threading\ns = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)\nthreading.Thread(target=s.serve_forever, daemon=True).start()\ns.shutdown(); s.server_close(); print(1)', { stdout: '1\n' }],
	['pip in a virtual environment', 'import os, subprocess, sys\nif os.path.isdir("/tmp/v"): pass\nelse: subprocess.run([sys.executable, "-m", "venv", "/tmp/v"], check=True)\nsubprocess.run(["/tmp/v/bin/pip", "install", "cowsay"], check=True)', { code: 1, stdout: /^/, stderr: /ERROR: No matching distribution found for cowsay/, hint: /^The sandbox has no network, so pip in a virtual environment finds no package\. Leave the environment out: sandbox_install_packages/ }],
	['an encoding that lacks letters', 'open("l.txt", "w", encoding="latin-1").write("caf\u00e9 \u65e5\u672c")', { code: 1, stderr: /^Hint: the encoding latin-1 does not have all letters of the text: encoding="utf-8" has/ }],
	['a package with nearly the name of a module', 'import httpx', { code: 1, stderr: /^Traceback/, hint: /^The module httpx is not installed here: use sandbox_install_packages with the package httpx\.$/ }],
	['its pool is nobody\'s business', 'import multiprocessing as m\nwith m.Pool(1) as p: print(p.map(abs, [-1]))', { stdout: '[1]\n' }],
	['mutual recursion', 'def f(n): return g(n)\ndef g(n): return f(n)\nf(0)', { code: 1, stderr: /^Traceback[^]{0,6000}\[\.\.\. \d+ more frames; the whole[^]{0,6000}RecursionError: [^\n]*\n$/ }],
	...([['an array read as lines', 'pd.read_json("ar.jsonl", lines=True)', 'ar.jsonl', b64('[{"a": 1},\n{"a": 2}]'), 'ar\\.jsonl is one value of JSON, not one in each line: leave lines=True out\\.'], ['YAML as JSON', 'json.load(open("c.json"))', 'c.json', b64('# settings\na: 1\nb:\n  - 2\n'), 'c\\.json is YAML: read it with yaml\\.safe_load\\(\\)'],
		['a HEIC picture', 'Image.open("a.heic")', 'a.heic', b64('\0\0\0\x18ftypheic\0\0\0\0mif1heic'), 'a\\.heic is a HEIC picture: [^\n]*pillow-heif\\.'], ['SVG in Pillow', 'Image.open("a.svg")', 'a.svg', b64('<?xml version="1.0"?>\n<svg xmlns="http://www.w3.org/2000/svg"/>'), 'a\\.svg is a picture in SVG, which Pillow'],
		['PDF in Pillow', 'Image.open("p.pdf")', 'p.pdf', b64('%PDF-1.4\n'), 'p\\.pdf is a PDF: read it with pypdfium2\\.'], ['an old document', 'docx.Document("a.doc")', 'a.doc', '0M8R4KGxGuEAAAAA', 'a\\.doc is an old Office file [^\n]*ask for docx'], ['RTF as a document', 'docx.Document("r.docx")', 'r.docx', b64('{\\rtf1 hi}'), 'r\\.docx is a text in RTF'],
		['a document as a workbook', 'docx.Document().save("d.xlsx")\npd.read_excel("d.xlsx")', '', '', 'd\\.xlsx is a Word document: read it with docx\\.Document\\(\\)'], ['a document in openpyxl', 'pd.DataFrame({"a": [1]}).to_excel("o.ods")\nos.rename("o.ods", "o.xlsx")\npd.read_excel("o.xlsx", engine="openpyxl")', '', '', 'o\\.xlsx is an OpenDocument file'],
		['a workbook as a document', 'pd.DataFrame({"a": [1]}).to_excel("w.xlsx")\nos.rename("w.xlsx", "w.docx")\ndocx.Document("w.docx")', '', '', 'w\\.docx is an Excel workbook'], ['a module in another folder', 'os.makedirs("proj/owner", exist_ok=True)\nopen("proj/owner/deep.py", "w").close()\nimport deep', '', '', "your module deep is in /mnt/data/proj/owner, where imports do not look: sys\\.path\\.insert\\(0, '/mnt/data/proj/owner'\\)"],
		['a folder of modules in another folder', 'import owner', '', '', "your module owner is in /mnt/data/proj, "]] as const).map(([what, use, file, data, hint]): [string, string, Expect] =>
		[what, `import base64, docx, json, os\nimport pandas as pd\nfrom PIL import Image\n${file ? `open("${file}", "wb").write(base64.b64decode("${data}"))\n` : ''}${use}`, { code: 1, stderr: new RegExp(`^Hint: ${hint}`) }]),
	...([['a clipboard', 'import pandas as pd\npd.read_clipboard()', /^There is no clipboard here/], ['a screen', 'from PIL import ImageGrab\nImageGrab.grab()', /^There is no screen here/], ['a microphone', 'import sounddevice', /^The module sounddevice is not installed here\. It needs a microphone/], ['a table in an object', 'import pandas as pd\nopen("n.json", "w").write(\'{"ok": 1, "items": [{"a": 1}, {"a": 2}], "x": {"q": 1}}\')\npd.read_json("n.json")', /^The JSON is one object, and its table is a part of it/]] as const).map(([what, code, hint]): [string, string, Expect] =>
		[what, code, { code: 1, stderr: /Traceback/, hint }]),
	...([['import sklearn.grid_search', /^The module sklearn\.grid_search is one of older versions: its names are in sklearn\.model_selection now\.$/], ['import datetime\ndatetime.now()', /^The class has the same name as its module/], ['import pandas as pd\npd.datetime', /^pandas removed pd\.datetime: from datetime/], ['from scipy.signal import gaussian', /^SciPy has this window in scipy\.signal\.windows\.$/],
		['import cv2\ncv2.CascadeClassifier("x")', /^OpenCV 5 has no cascades/], ['import polars as pl\npl.read_csv("x", sep=";")', /^polars has separator=/], ['import polars as pl\npl.DataFrame({"a": [1]}).groupby("a")', /^$/]] as const).map(([code, hint]): [string, string, Expect] =>
		[`an old name: ${code}`, code, { code: 1, stderr: /^(?:\S+ DeprecationWarning[^]*)?Traceback/, hint: hint.source === '^$' ? undefined : hint }]),
	...([['sandbox:/mnt/data/zqxwvu', 'without sandbox:'], ['C:\\\\me\\\\zqxwvu', 'without folders of Windows']] as const).map(([path, hint]): [string, string, Expect] =>
		[`a path of elsewhere: ${path}`, `open("${path}")`, { code: 1, stderr: new RegExp(`^Hint: files are in /mnt/data here: give their names ${hint}\\.`) }]),
	['a file by a path of Windows', 'open("report.csv", "w").close()\nopen("C:\\\\me\\\\Report.csv")', { code: 1, stderr: /^Hint: \/mnt\/data\/report\.csv may be meant\./ }],
	['a camera', 'import cv2\nc = cv2.VideoCapture(0)\nc.isOpened()', { result: 'False', stderr: /can't open camera by index/, hint: /^There is no camera here: cv2\.VideoCapture\("film\.mp4"\) reads a film/ }],
	['an animation', 'import matplotlib.pyplot as plt\nfrom matplotlib.animation import FuncAnimation\nfig, ax = plt.subplots()\nline, = ax.plot([0, 1])\nfilm = FuncAnimation(fig, lambda i: line.set_ydata([0, i]) or (line,), frames=3)\nplt.show()', { stderr: /^Note: of an animation the picture has the first frame alone: animation\.save\("film\.gif", writer="pillow"\) or "film\.mp4" saves all of it\.\n$/ }],
];

const check = async (s: Session, name: string, code: string, e: Expect, more: Json = {}): Promise<void> => {
	const r = facts(await s.raw('sandbox_run_python', { code, session_id: 'notebook', ...more }));
	assert.deepEqual([name, r.exit_code, r.result], [name, e.code ?? 0, e.result], JSON.stringify(r));
	for (const [which, wanted] of [['stdout', e.stdout ?? ''], ['stderr', e.stderr ?? ''], ['hint', e.hint]] as const)
		if (wanted instanceof RegExp)
			assert.match(String(r[which]), wanted, `${name}: ${which}`);
		else if (wanted !== undefined)
			assert.equal(r[which], wanted, `${name}: ${which}`);
};

describe('as in a notebook', () => {
	for (const [way, env, more, some] of [['(slow) warm', {}, {}, undefined], ['in a session', {}, { stateful: true }, undefined], ['(slow) cold', { SANDBOX_WARM: 'off' }, {}, 20]] as [string, Record<string, string>, Json, number?][])
		it(way, () => using('stdio', { profile: 'full', env }, async (s) => {
			await s.call('sandbox_run_python', { code: '1', session_id: 'notebook', ...more });
			for (const [name, code, expect] of rows.filter(([, code]) => some === undefined || !/pandas|numpy/.test(code)).slice(0, some))
				await check(s, name, code, more.stateful ? { ...expect, hint: expect.living ?? expect.hint } : expect, more);
		}));

	it('(slow) one event loop for a session, also after a run that was undone', () => using('stdio', { profile: 'full' }, async (s) => {
		const run = (code: string, e: Expect): Promise<void> => check(s, code, code, e, { stateful: true });
		await s.call('sandbox_run_python', { code: 'import asyncio\nq = asyncio.Queue()\nasync def later():\n    await asyncio.sleep(0.01)\n    await q.put("kept")', session_id: 'notebook', stateful: true });
		await run('loop = asyncio.get_running_loop()\nt = asyncio.create_task(later())\nawait asyncio.sleep(0)', {});
		await run('import os; await asyncio.sleep(0); os._exit(3)', { code: 3 });
		await run('async def same(): return loop is asyncio.get_running_loop()\nawait same(), await q.get()', { result: "(True, 'kept')" });
	}));

	it('(slow) what a call forgets to say', () => using('stdio', { profile: 'full' }, async (s) => {
		const first = facts(await s.raw('sandbox_write_file', { path: 'a.csv', content: 'x\n1\n' }));
		const run = async (tool: string, args: Json): Promise<{ text: string; hint: string }> => {
			const r = await s.raw(tool, args);
			return { text: r.content[0]!.text!, hint: String(facts(r).hint ?? '') };
		};
		const elsewhere = new RegExp(`^This call had no session_id, so it ran in a new session, without the files and variables of ${first.session_id}: give that session_id`);
		const lost = await run('sandbox_run_python', { code: 'print(1)\nopen("a.csv")' });
		assert.match(lost.hint, elsewhere);
		assert.match(lost.text, /^Hint: This call had no session_id/);
		await s.call('sandbox_run_shell', { session_id: first.session_id, command: 'true' });
		assert.match((await run('sandbox_run_shell', { command: 'cat a.csv' })).hint, elsewhere);
		assert.equal((await run('sandbox_run_python', { code: 'open("/proc/vmstat")' })).hint, '');
		const named = await run('sandbox_run_python', { session_id: 'last', code: 'import math\nx + 1' });
		assert.match(named.hint, /^Variables and imports are kept only from one run with stateful true to the next/);
		const guessed = await run('sandbox_run_python', { session_id: 'last', code: 'total = 1\ntotals' });
		assert.match(guessed.text, /Did you mean: 'total'/);
		assert.match(guessed.hint, /^Variables and imports are kept only from one run with stateful true to the next/);
		assert.match((await run('sandbox_run_python', { session_id: 'last', stateful: true, code: 'x + 1' })).hint, /^No variables of earlier runs are left here: this is the first stateful run/);
		assert.equal((await run('sandbox_run_python', { session_id: 'last', stateful: true, code: 'x + 1' })).hint, '');
		// names of notebooks in a file: plain Python has none, %run has them
		await run('sandbox_write_file', { session_id: first.session_id, path: 'show.py', content: 'import pandas as pd\ndisplay(pd.DataFrame({"a": [41]}))\n' });
		await run('sandbox_write_file', { session_id: first.session_id, path: 'module.py', content: 'from IPython.display import display\ndisplay({"a": 42})\n' });
		assert.match((await run('sandbox_run_shell', { session_id: first.session_id, command: 'python3 show.py' })).hint, /^The code of sandbox_run_python has display\(\), a file that python3 starts does not: use print\(\), or run the file there with %run FILE\.$/);
		assert.match((await run('sandbox_run_shell', { session_id: first.session_id, command: 'python3 module.py' })).hint, /^The module IPython is not installed here\. The code of sandbox_run_python has IPython\.display, .*%run FILE\.$/);
		assert.match((await run('sandbox_run_python', { session_id: first.session_id, code: '%run show.py\n%run module.py' })).text, /^ {4}a\n0 {2}41\n\{'a': 42\}\n\[session_id: \S+ exit_code: 0/);
		const late = await run('sandbox_run_python', { session_id: 'last', code: 'print("much")\nopen("nosuch/b", "w")' });
		assert.match(late.text, /^Hint: the folder nosuch does not exist[^\n]*\nmuch\nstderr:\nTraceback/);
		const timed = await run('sandbox_run_python', { session_id: 'last', code: 'while True: pass', timeout_s: 1 });
		assert.match(timed.hint, /^The run was ended after its 1 s\. Do less in one run, or give a larger timeout_s \(at most 600\)\.$/);
	}));

	it('a function of an earlier cell finds what is beside the program, and so do workers', () => using('stdio', { profile: 'full' }, async (s) => {
		const run = (code: string, e: Expect): Promise<void> => check(s, code, code, e, { stateful: true });
		await s.call('sandbox_write_file', { session_id: 'notebook', path: 'in/data.csv', content: 'a' });
		await check(s, 'a run without a state', 'open(__file__).close()\n1 / 0', { code: 1, stderr: /ZeroDivisionError/ });
		assert.deepEqual((await s.call('sandbox_run_shell', { session_id: 'notebook', command: 'ls -A' })).stdout, 'in\n');
		await run('import os\ndef here(): return os.path.dirname(os.path.abspath(__file__))', {});
		await run('open(os.path.join(here(), "in", "data.csv")).read(), here()', { result: "('a', '/mnt/data')" });
		await run('import multiprocessing as m\nwith m.get_context("spawn").Pool(1) as p: print(p.apply(here))', { stdout: '/mnt/data\n' });
		await run('here()\nraise SystemExit', {});
		await run('sorted(os.listdir(here()))', { result: "['.caisson-main.py', 'in']" });
		await run('1 / 0 if here() else 0', { code: 1, stderr: /ZeroDivisionError/ });
		assert.deepEqual((await s.call('sandbox_run_shell', { session_id: 'notebook', command: 'ls -A' })).stdout, 'in\n');
	}));

	it('(slow) a stored sandbox that was opened again says that its variables are gone, where they are not kept', async () => {
		const env = { SANDBOX_STATE_DIR: newStateDir(), SANDBOX_STORED_VARIABLES: 'off' };
		const at = { session_id: '', stateful: true };
		await using('stdio', { profile: 'full', env }, async (s) => {
			at.session_id = String((await s.call('sandbox_create', { persistent: true })).session_id);
			await s.call('sandbox_run_python', { ...at, code: 'x = 1\nopen("f", "w").close()' });
			assert.equal(facts(await s.raw('sandbox_run_python', { ...at, code: 'y' })).hint ?? '', '', 'its variables are there');
		});
		await using('stdio', { profile: 'full', env }, async (s) => {
			assert.match(String(facts(await s.raw('sandbox_run_python', { ...at, code: 'x' })).hint), /^The session's variables are gone: they could not be kept while the sandbox rested\. Its files are still there\./);
			assert.equal((await s.call('sandbox_run_python', { ...at, code: 'import os\nprint(os.listdir("."))' })).stdout, "['f']\n");
		});
	});
	it('a shell that leaves a background process says so', () => using('stdio', { profile: 'full' }, async (s) => {
		const shell = async (command: string): Promise<string> => (await s.call('sandbox_run_shell', { command, session_id: 'notebook' })).hint ?? '';
		await shell('true');
		assert.match(await shell('sleep 99 &'), /background process/);
		assert.match(await shell('nohup sleep 99 >/dev/null 2>&1 & echo started'), /background process/);
		assert.equal(await shell('echo a && echo b 2>&1'), '');
	}));

	// Where memory is only watched, RLIMIT_DATA counts the whole stack of each thread.
	it('300 threads; more name the setting', { skip: unlessEnforced('memory', 'pids') }, () => using('stdio', { profile: 'full' }, async (s) => {
		await s.call('sandbox_run_python', { code: '1', session_id: 'notebook' });
		const threads = 'import threading\ne = threading.Event()\nt = [threading.Thread(target=e.wait) for i in range(%)]\nfor x in t: x.start()\ne.set()\nlen(t)';
		await check(s, '300 threads', threads.replace('%', '300'), { result: '300' });
		await check(s, '500 threads', `import os\ntry:\n${threads.replace('%', '500').replace(/^/gm, '    ')}\nfinally: e.set()`, { code: 1, stderr: /can't start new thread/, hint: /^A sandbox may have 384 processes and threads \(SANDBOX_PIDS_LIMIT\)/ });
	}));

	it('(slow) 70,000 files; a limit of open files names its setting', () => using('stdio', { profile: 'full' }, async (s) => {
		await s.call('sandbox_run_python', { code: '1', session_id: 'notebook' });
		await check(s, '70,000 files', 'import os\nos.mkdir("many")\nfor i in range(70000): os.close(os.open(f"many/{i}", os.O_CREAT))\nn = len(os.listdir("many"))\n!rm -r many\nn', { result: '70000' });
		const most = unlessEnforced('memory') ? 5000 : 19_900; // this machine may permit no more than 20,000
		await check(s, `${most} open files`, `import os\nf = [os.open("/dev/null", 0) for i in range(${most})]\nfor x in f: os.close(x)\nlen(f)`, { result: String(most) });
		await check(s, '70,000 open files', 'import os\nf = [os.open("/dev/null", 0) for i in range(70000)]', { code: 1, stderr: /Too many open files/, hint: /^A process of a sandbox may have \d+ open files \(SANDBOX_NOFILE_LIMIT\)/ });
	}));

	it('the value of the last line is no output: a client that follows it hears only what was printed', () => using('stdio', { profile: 'full' }, async (s) => {
		const heard: Json[] = [];
		s.client.setNotificationHandler(LoggingMessageNotificationSchema, (n) => void heard.push(n.params));
		await s.client.setLoggingLevel('debug');
		for (const stateful of [false, true])
			assert.equal(facts(await s.raw('sandbox_run_python', { code: 'import sys\nprint("out")\nsys.stderr.write("err\\n")\n6 * 7', session_id: 'notebook', stateful })).result, '42');
		const said = (logger: string): string => heard.filter((l) => l.logger === logger).map((l) => l.data).join('');
		assert.deepEqual([said('stdout'), said('stderr')], ['out\nout\n', 'err\nerr\n'], JSON.stringify(heard));
	}));

	it('the exact profiles stay exact', () => using('stdio', {}, async (s) => {
		for (const code of ['!true', '%matplotlib inline', 'await x'])
			assert.match((await s.run(code, 'exact')).stderr, /SyntaxError/);
		const r = await s.run('1 + 1', 'exact');
		assert.deepEqual([r.stdout, r.stderr, r.result], ['', '', undefined]);
		assert.doesNotMatch((await s.run('open("/nosuch")', 'exact')).stderr, /Hint/);
	}));
	it('(slow) pytest.main() tests the code of the run, and of the cell', () => using('stdio', { profile: 'full' }, async (s) => {
		const rows: [string, string, Expect][] = [
			['its own tests', 'import pytest\ndef test_a(): assert 1 + 1 == 2\ndef test_b(): assert sum([1, 2]) == 4\nif __name__ == "__main__": print(int(pytest.main(["-q", "--no-header", __file__ + "::test_a"])), int(pytest.main(["-q", "-p", "no:cacheprovider", __file__])))', { stdout: /1 passed[^]*assert 3 == 4[^]*1 failed, 1 passed[^]*\n0 1\n$/ }],
			['its own tests, in the next cell', 'import pytest\ndef test_a(): assert 1 + 1 == 3\nif __name__ == "__main__": print(int(pytest.main(["-q", "--no-header", __file__])))', { stdout: /== 3\n[^]*FAILED [^\n]*::test_a - [^]*\n1\n$/ }],
		];
		for (const [name, code, expect] of rows)
			for (const more of [{ session_id: 'plain' }, { session_id: 'tests', stateful: true }])
				await check(s, name, code, expect, more);
	}));
	it('(slow) a run that waits for a thread that has failed is told so, and one that only takes too long is not', () => using('stdio', { profile: 'full' }, async (s) => {
		const thread = 'import threading, queue\nq = queue.Queue()\ndef work(): raise ValueError("x")\nthreading.Thread(target=work).start()\nq.get()';
		for (const stateful of [false, true]) {
			assert.match(String(facts(await s.raw('sandbox_run_python', { code: thread, timeout_s: 3, stateful })).hint), / A thread or a worker process of it failed, as stderr says, and the run may have waited for it\.$/);
			assert.match(String(facts(await s.raw('sandbox_run_python', { code: 'while True: pass', timeout_s: 2, stateful })).hint), / Do less in one run, /);
		}
	}));
});
