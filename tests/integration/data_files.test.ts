// SPDX-License-Identifier: Apache-2.0
// Data files as people have them: under a wrong name, in another form, with numbers and dates of another country. The hint says what
// a file is and what reads it. All rows run one after another in one session, so variables and files of earlier rows are there.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { facts, using, type Json } from '../lib/session.ts';

/** What it is, the code, and how the hint begins; '': there is none. */
type Row = [what: string, code: string, hint: string];

const json: Row[] = [
	['a file that an earlier cell opened is not meant', 'import json\nwith open("events.json", "w") as f:\n    for i in range(3): f.write(json.dumps({"id": i}) + "\\n")\nopen("cat.json", "w").write(\'{"a":1}{"a":2}\')\njson.load(open("cat.json"))', 'cat.json is JSON, several values one after another: read it with value, at = json.JSONDecoder().raw_decode(text, at)'],
	['values over several lines', 'open("pretty.json", "w").write(\'{\\n "a": 1\\n}\\n{\\n "a": 2\\n}\\n\')\nwith open("pretty.json") as g: data = json.load(g)', 'pretty.json is JSON, several values one after another'],
	['comments', 'open("c.json", "w").write(\'{"u": "http://x", // one\\n /* two */ "b": 2}\')\njson.load(open("c.json"))', 'c.json is JSON with comments'],
	['a comma too many', 'def load(path):\n    with open(path) as h: return json.load(h)\nopen("t.json", "w").write(\'{"a": true, "b": [1, 2, ],}\')\nload("t.json")', 't.json is JSON with commas too many'],
	['a line of JavaScript', 'open("p.json", "w").write(\'callback({"a": 1});\')\njson.load(open("p.json"))', 'p.json is JSON in a line of JavaScript: read it with json.loads(text[9:-2])'],
	['something behind it', 'json.loads(\'{"a": 1} done\')', 'the text is JSON with something else behind it, from character 8 on'],
	['NaN and a strict reader', 'import orjson\nopen("nan.json", "w").write(\'{"a": NaN}\')\norjson.loads(open("nan.json").read())', 'nan.json is JSON: read it with json.load()'],
];

const binary: Row[] = [
	...([['Stata', 'pd.DataFrame({"a": ["\\u00e9"]}).to_stata("x.csv")', 'Stata data: read it with pandas.read_stata()'], ['ORC', 'open("x.csv", "wb").write(b"ORC" + bytes(range(200)))', 'an ORC file: read it with pyorc'],
		['Avro', 'open("x.csv", "wb").write(b"Obj\\x01\\x04\\xff")', 'an Avro file: read it with polars.read_avro()'], ['SAS', 'open("x.csv", "wb").write(bytes(12) + bytes.fromhex("c2ea8160b31411cf") + bytes(99))', 'SAS data: read it with pandas.read_sas(path, format="sas7bdat")'],
		['SPSS', 'open("x.csv", "wb").write(b"$FL2@(#) \\xff")', 'SPSS data: read it with pandas.read_spss()']] as const).map(([what, make, is]): Row =>
		[`${what} as CSV`, `import pandas as pd\n${make}\npd.read_csv("x.csv")`, `x.csv is ${is}`]),
	['Stata as Parquet', 'pd.DataFrame({"a": [1]}).to_stata("x.csv")\npd.read_parquet("x.csv")', 'x.csv is Stata data'],
	['MATLAB for NumPy', 'import scipy.io, numpy as np\nscipy.io.savemat("x.mat", {"a": [1]})\nnp.load("x.mat")', 'x.mat is MATLAB data: read it with scipy.io.loadmat()'],
	['MATLAB as CSV, which becomes an empty table', 'pd.read_csv("x.mat")["a"]', "the columns of this table are 'MATLAB 5.0 MAT-file"],
	['a tar archive as CSV', 'import tarfile\nopen("in.csv", "w").write("a,b\\n1,2\\n")\nfor mode in "w", "w:gz", "w:xz":\n    with tarfile.open("t.csv" + mode[1:].replace(":", "."), mode) as t: t.add("in.csv")\npd.read_csv("t.csv.gz")["a"]', "the columns of this table are '././@PaxHeader': t.csv.gz is a tar archive of in.csv, no CSV: read it with tarfile.open()."],
	['the same in xz', 'pd.read_csv("t.csv.xz")["a"]', "the columns of this table are '././@PaxHeader': t.csv.xz is a tar archive of in.csv"],
	['the same as it is', 'pd.read_csv("t.csv")["a"]', "the columns of this table are '././@PaxHeader': t.csv is a tar archive of in.csv"],
	['a tar archive as ZIP', 'import zipfile\nzipfile.ZipFile("t.csv.gz")', 't.csv.gz is a tar archive of in.csv: read it with tarfile.open().'],
	['a tar archive for polars', 'import polars as pl\npl.read_csv("t.csv.gz")', 't.csv.gz is a tar archive of in.csv: read it with tarfile.open().'],
	['a ZIP archive as CSV', 'import zipfile\nwith zipfile.ZipFile("z.csv", "w", 8) as z:\n    for i in range(5): z.write("in.csv", "in%d.csv" % i)\npd.read_csv("z.csv")', 'z.csv is a ZIP archive of in0.csv, in1.csv, in2.csv, ...: read it with zipfile.ZipFile().'],
	['JSON as CSV', 'pd.DataFrame({"a": [1, 2], "b": ["x", "y"]}).to_json("j.csv", orient="records")\npd.read_csv("j.csv")["a"]', "the columns of this table are '[{\"a\":1', 'b:\"x\"}', '{\"a\":2', 'b:\"y\"}]': j.csv is JSON, no CSV: read it with json.load()"],
	['a pointer of Git LFS', 'open("l.csv", "w").write("version https://git-lfs.github.com/spec/v1\\noid sha256:0\\nsize 1\\n")\npd.read_csv("l.csv")["a"]', "the columns of this table are 'version https://git-lfs.github.com/spec: the file is a pointer of Git LFS, without the data"],
];

const tables: Row[] = [
	['thousands that were added up as texts', 'open("n.csv", "w").write(\'a\\n"8,336,817"\\n"3,979,576"\\n\')\npd.read_csv("n.csv")["a"].mean()', 'the numbers have commas between thousands'],
	['decimal commas that were', 'pd.DataFrame({"a": ["1,5", "2,5"]})["a"].mean()', 'the numbers have decimal commas'],
	['decimal commas in polars', 'import polars as pl\npl.DataFrame({"a": ["1.234,56"]})["a"].cast(pl.Float64)', 'the numbers have decimal commas: polars.read_csv(path, separator=";", decimal_comma=True)'],
	['thousands in polars', 'pl.DataFrame({"a": ["8,336,817"]})["a"].cast(pl.Int64)', 'the numbers have commas or signs: pl.col(NAME).str.replace_all('],
	['a header for loadtxt()', 'open("h.csv", "w").write("a_x,b_y\\n1,2\\n")\nnp.loadtxt("h.csv", delimiter=",")', 'the first line has names: numpy.loadtxt(path, skiprows=1)'],
	['a title, in polars', 'open("r.csv", "w").write("Report\\n\\nRegion,Q1,Q2\\nNorth,1,2\\nSouth,3,4\\n")\npl.read_csv("r.csv")', 'the header seems to be in line 3 of r.csv: read the file with skip_rows=2.'],
	['a title, in rows that are gone', 'import csv\nrows = list(csv.DictReader(open("r.csv")))\nprint(sum(int(row["Q1"]) for row in rows))', "the first line of r.csv is 'Report': the header seems to be in line 3 of r.csv"],
	['another separator, in rows that are gone', 'open("b.txt", "w").write("id|amt\\n1|2\\n")\nprint([row["amt"] for row in csv.DictReader(open("b.txt"))])', "the first line of b.txt is 'id|amt': the separator is '|'"],
	['rows of one field', 'for row in csv.reader(open("b.txt")): print(row[1])', "the row has one field, 'id|amt': the separator is '|'"],
	['a quotation mark without an end', 'open("q.csv", "w").write(\'a,b\\n1,"x\\n2,y\\n\')\npd.read_csv("q.csv")', 'a quotation mark in row 1 has no end: pandas.read_csv(path, quoting=3)'],
	['another key', '{}["amt"]', ''],
	['another index', '[1, 2][5]', ''],
];

const others: Row[] = [
	['the day first, in pandas', 'pd.to_datetime(pd.Series(["01/02/2024", "13/02/2024"]))', 'the day stands first: pandas.to_datetime(column, format="%d/%m/%Y")'],
	['the day first, in datetime', 'from datetime import datetime\ndatetime.fromisoformat("13.02.2024")', 'the day stands first: pandas.to_datetime(column, format="%d.%m.%Y"), or datetime.strptime(text, "%d.%m.%Y")'],
	['the month first', 'datetime.strptime("02/13/24", "%d/%m/%y")', 'the month stands first: pandas.to_datetime(column, format="%m/%d/%y")'],
	['text that is no dates', 'pd.Series(["a"]).dt.month', 'this column is no column of dates: pandas.to_datetime(column)'],
	['a table that a database does not have', 'import sqlite3\nbase = sqlite3.connect("real.db")\nbase.execute("create table Orders(id, amount)")\nbase.execute("select * from order_items")', 'the database has Orders(id, amount).'],
	['a column that it does not have', 'sqlite3.connect("real.db").execute("select total from Orders")', 'the database has Orders(id, amount).'],
	['a database of another name', 'pd.read_sql("select * from Orders", sqlite3.connect("rael.db"))', 'the database has no tables: a name that is no file makes a new one. /mnt/data has: rael.db, real.db.'],
	['a module of Windows', 'import winreg', ''],
];

describe('data files', () => {
	const play = (rows: Row[], more: Json): Promise<void> => using('stdio', { profile: 'full' }, async (s) => {
		if (!more.stateful)
			rows = rows.map(([what, code, hint]) => [what, `import csv, json, sqlite3\nimport numpy as np, pandas as pd, polars as pl\nfrom datetime import datetime\n${code}`, hint]);
		for (const [what, code, hint] of rows) {
			const r = facts(await s.raw('sandbox_run_python', { code, session_id: 'files', ...more }));
			const said = /^Hint: (.*)$/m.exec(String(r.stderr))?.[1] ?? '';
			assert.deepEqual([what, r.exit_code, hint === '' ? said : said.slice(0, hint.length)], [what, 1, hint], JSON.stringify(r));
		}
	});
	it('JSON that is not quite JSON', () => play(json, { stateful: true }));
	it('(slow) binary files under another name', () => play(binary, { stateful: true }));
	it('(slow) tables, numbers, dates and databases', () => play([...binary.slice(0, 1), ['', 'import scipy, numpy as np\n1 / 0', ''], ...tables, ...others], { stateful: true }));
	it('(slow) the same without a session', () => play([...json, ...binary, ...tables, ...others], {}));
});
