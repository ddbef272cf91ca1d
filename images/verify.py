# SPDX-License-Identifier: Apache-2.0
"""Tries a new image from inside: python3 - MODULE... ; exits 1 with what is wrong.

Every module that the image preloads must import, every compiled file must be current (a stale one
is compiled again at each start, because the root is read-only), and where the science packages
are there each must do its main job on disk.
"""

import importlib
import importlib.util
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import warnings

# Imported where they are installed: not preloaded, so nothing else would notice that one is broken.
OTHERS = (
    "sklearn.linear_model", "statsmodels.api", "sympy", "networkx", "numexpr", "plotly.express", "polars", "duckdb",
    "requests", "bs4", "html5lib", "lxml.etree", "jinja2", "markdown", "tabulate", "tqdm", "nltk", "yaml", "orjson",
    "pypdf", "pdfminer.high_level", "docx", "xlsxwriter", "xlrd", "odf.opendocument", "pptx", "pdfplumber", "PIL.Image", "skimage.io",
    "psutil", "joblib", "pytest", "cv2", "pytesseract", "chardet", "charset_normalizer", "arabic_reshaper", "bidi.algorithm",
)
LABELS = "Größe Ωμέγα Жук 中文 日本語 한국어"
SCRIPTS = "हिन्दी বাংলা தமிழ் తెలుగు ಕನ್ನಡ മലയാളം ગુજરાતી ਪੰਜਾਬੀ සිංහල ไทย ລາວ ខ្មែរ မြန်မာ ქართული Հայերեն አማርኛ עברית العربية ✅❌₿😀🥰🫠🇩🇪"
WORDS = "हिन्दी क्षत्रिय বাংলা শুভ தமிழ் කොළඹ ไทย ខ្មែរ မြန်မာ ქართული አማርኛ 📊 ✅ 🥰"
problems = []


def check_byte_code():
    """Counts sources whose .pyc is missing or does not match (PEP 3147, PEP 552 header)."""
    magic, n, stale = importlib.util.MAGIC_NUMBER, 0, []
    roots = [p for p in sys.path if p.startswith(("/usr/lib/python3", "/usr/local/lib/python3")) and os.path.isdir(p)]
    for root in roots:
        for folder, _, files in os.walk(root):
            for name in files:
                if not name.endswith(".py"):
                    continue
                source = os.path.join(folder, name)
                if source.endswith("/pip/__main__.py"):
                    continue  # a sandbox has one of its own there, short and only ever run
                cached = importlib.util.cache_from_source(source)
                st = os.stat(source)
                n += 1
                try:
                    with open(cached, "rb") as f:
                        head = f.read(16)
                except OSError:
                    head = b""
                want = magic + struct.pack(
                    "<III", 0, int(st.st_mtime) & 0xFFFFFFFF, st.st_size & 0xFFFFFFFF)
                if head != want:
                    stale.append(source)
    # Templates that are no valid Python cannot be compiled and are never imported.
    if len(stale) > 20:
        problems.append(f"{len(stale)} of {n} compiled files are missing or stale: {stale[:5]}")
    print(f"byte code: {n} sources, {len(stale)} without a current .pyc {stale[:5]}")


def check_charts(folder):
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        fig, ax = plt.subplots()
        ax.bar(list(LABELS.split()), range(len(LABELS.split())))
        ax.set_title(LABELS)
        ax.set_xlabel(SCRIPTS, family="SimHei")
        for kind in ("png", "pdf", "svg"):
            path = os.path.join(folder, "chart." + kind)
            fig.savefig(path)
            if os.path.getsize(path) < 1000:
                problems.append(f"chart.{kind} is empty")
    for w in seen:
        if "missing from font" in str(w.message):
            problems.append(f"chart: {w.message}")


def check_tables(folder):
    import numpy as np
    import pandas as pd
    frame = pd.DataFrame({"k": list("ab") * 50, "v": np.arange(100) + 0.5, "t": [LABELS] * 100})
    for kind, write, read in (
            ("parquet", frame.to_parquet, pd.read_parquet),
            ("xlsx", lambda p: frame.to_excel(p, index=False), pd.read_excel),
            ("csv", lambda p: frame.to_csv(p, index=False), pd.read_csv)):
        path = os.path.join(folder, "table." + kind)
        write(path)
        if not read(path).equals(frame):
            problems.append(f"{kind}: what was read differs from what was written")


def check_numbers(folder):
    import numpy as np
    import scipy.linalg
    import scipy.stats
    a = np.random.default_rng(1).normal(size=(200, 200))
    if not np.allclose(scipy.linalg.inv(a) @ a, np.eye(200), atol=1e-6):
        problems.append("scipy.linalg.inv gives wrong numbers")
    if not 0 <= scipy.stats.ttest_ind(a[0], a[1]).pvalue <= 1:
        problems.append("scipy.stats gives wrong numbers")
    with open("/proc/self/maps", encoding="utf-8") as f:
        if "openblas" not in f.read():
            problems.append("numpy does not use OpenBLAS")


def check_report(folder):
    """The standard fonts write every script: what was drawn is read back from the PDF."""
    import pdfplumber
    import pypdf
    from reportlab.lib.styles import getSampleStyleSheet
    from reportlab.pdfgen import canvas
    from reportlab.platypus import Paragraph
    path = os.path.join(folder, "report.pdf")
    page = canvas.Canvas(path)
    page.drawString(72, 720, LABELS)
    page.setFont("Times-Bold", 12)
    page.drawString(72, 690, LABELS)
    page.drawString(72, 590, WORDS)
    style = getSampleStyleSheet()["Normal"]
    paragraph = Paragraph(LABELS, style)
    paragraph.wrapOn(page, 400, 100)
    paragraph.drawOn(page, 72, 650)
    page.save()
    with pdfplumber.open(path) as pdf:
        text = pdf.pages[0].extract_text()
    text += pypdf.PdfReader(path).pages[0].extract_text()  # in the order of drawing: some syllables overlap
    if text.count(LABELS) != 6 or WORDS not in text:
        problems.append(f"reportlab: the PDF has other letters than were drawn: {text!r}")
    check_fonts_of_report(path)


def check_fonts_of_report(path):
    """A program registers the file that the standard fonts use, too, and uses it under two names; a name that it has not registered is told."""
    from reportlab.pdfbase import pdfmetrics
    from reportlab.pdfbase.ttfonts import TTFont
    from reportlab.pdfgen import canvas
    for name in "DejaVuSans", "Letters":
        pdfmetrics.registerFont(TTFont(name, "DejaVuSans.ttf"))
    page = canvas.Canvas(path)
    for i, name in enumerate(("Helvetica", "DejaVuSans", "Letters")):
        page.setFont(name, 12)
        page.drawString(72, 720 - 30 * i, "Größe Жук")
    page.save()
    try:
        page.setFont("NoSuchFont", 12)
    except NameError as e:
        problems.append(f"reportlab: {e!r} of a font that is not registered")
    except Exception:
        pass


def check_frames(folder):
    import duckdb
    import polars as pl
    path = os.path.join(folder, "frame.parquet")
    pl.DataFrame({"k": ["a", "b", "a"], "v": [1, 2, 3]}).write_parquet(path)
    rows = duckdb.sql(f"select k, sum(v) as v from '{path}' group by k order by k").fetchall()
    if [(k, int(v)) for k, v in rows] != [("a", 4), ("b", 2)]:
        problems.append(f"duckdb reads {rows!r} from what polars wrote")


def check_slides(folder):
    from pptx import Presentation
    path = os.path.join(folder, "slides.pptx")
    deck = Presentation()
    deck.slides.add_slide(deck.slide_layouts[5]).shapes.title.text = LABELS
    deck.save(path)
    if Presentation(path).slides[0].shapes.title.text != LABELS:
        problems.append("pptx: what was read differs from what was written")


def check_page(folder):
    import plotly.express as px
    path = os.path.join(folder, "page.html")
    px.bar(x=["a", "b"], y=[1, 2]).write_html(path)
    if os.path.getsize(path) < 1 << 20:
        problems.append("plotly wrote a page without its script")


def check_letters(folder):
    """A page with words of each language is read back."""
    import pytesseract
    from PIL import Image, ImageDraw, ImageFont
    font = ImageFont.truetype("/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf", 40)
    for language, words in (("eng", "invoice total"), ("deu", "Größe Übung"), ("fra", "élève garçon"), ("rus", "привет книга")):
        page = Image.new("RGB", (700, 120), "white")
        ImageDraw.Draw(page).text((40, 30), words, fill="black", font=font)
        read = pytesseract.image_to_string(page, lang=language).strip()
        if read != words:
            problems.append(f"tesseract reads {read!r} where {words!r} ({language}) is drawn")


def check_film(folder):
    import cv2
    import imageio_ffmpeg
    film = cv2.VideoCapture(os.path.join(folder, "film.mp4"))
    if not film.read()[0]:
        problems.append("cv2 reads no picture from a film that ffmpeg made")
    if imageio_ffmpeg.count_frames_and_secs(os.path.join(folder, "film.mp4"))[0] != 25:
        problems.append("imageio_ffmpeg does not count the pictures of a film")


def check_commands(folder):
    for words in (["uv", "--version"], ["curl", "--version"], ["git", "init", "-q", folder + "/r"], ["perl", "-e", "1"],
                  ["git", "-C", folder + "/r", "commit", "-q", "--allow-empty", "-m", "first"],
                  ["ffmpeg", "-loglevel", "error", "-f", "lavfi", "-i", "testsrc=d=1", folder + "/film.mp4"], ["ffprobe", folder + "/film.mp4"],
                  ["tar", "-cJf", folder + "/r.tar.xz", "-C", folder, "r"], ["tar", "-cjf", folder + "/r.tar.bz2", "-C", folder, "r"],
                  ["tar", "-cf", folder + "/r.tar.zst", "--zstd", "-C", folder, "r"]):
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode != 0 or "configuration:" in done.stderr:
            problems.append(f"{words[0]}: {done.stdout}{done.stderr}")


def ran(words, folder, want=""):
    """Whether the program succeeds and writes WANT."""
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, cwd=folder)
    if done.returncode != 0 or want not in done.stdout:
        problems.append(f"{' '.join(words)}: {done.returncode}: {done.stdout}{done.stderr}")


def write(folder, name, text):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
        f.write(text)


def check_compilers(folder):
    """Programs in C and C++, make, threads, and an extension module that uses numpy."""
    import sysconfig
    write(folder, "a.c", '#include <math.h>\n#include <pthread.h>\n#include <stdio.h>\nstatic void *f(void *p) { return p; }\n'
          'int main(int n, char **v) { pthread_t t; (void)v; pthread_create(&t, 0, f, 0); pthread_join(t, 0); printf("%.3f\\n", sqrt(n + 1.0)); }\n')
    write(folder, "b.cc", "#include <algorithm>\n#include <iostream>\n#include <vector>\n"
          'int main() { std::vector<int> v{3, 1, 2}; std::ranges::sort(v); std::cout << v[0] << v[2] << "\\n"; }\n')
    write(folder, "Makefile", "all: a b\na: a.c\n\tgcc -O2 -Wall -Werror -o a a.c -lm -lpthread\nb: b.cc\n\tg++ -std=c++20 -O2 -o b b.cc\n")
    ran(["make", "-s"], folder)
    ran([os.path.join(folder, "a")], folder, "1.414")
    ran([os.path.join(folder, "b")], folder, "13")
    headers = ["-I" + sysconfig.get_path("include")]
    uses = "import_array(); return PyModule_Create(&m);"
    include = "#include <Python.h>\n#include <numpy/arrayobject.h>\n"
    if importlib.util.find_spec("numpy"):
        import numpy
        headers.append("-I" + numpy.get_include())
    else:
        uses, include = "return PyModule_Create(&m);", "#include <Python.h>\n"
    write(folder, "own.c", include + "static PyObject *twice(PyObject *s, PyObject *n) { (void)s; return PyNumber_Add(n, n); }\n"
          'static PyMethodDef f[] = {{"twice", twice, METH_O, 0}, {0}};\n'
          'static struct PyModuleDef m = {PyModuleDef_HEAD_INIT, "own", 0, -1, f, 0, 0, 0, 0};\n'
          "PyMODINIT_FUNC PyInit_own(void) { " + uses + " }\n")
    ran(["gcc", "-shared", "-fPIC", "-O2", *headers, "-o", "own.so", "own.c"], folder)
    ran([sys.executable, "-c", "import own; print(own.twice(21))"], folder, "42")


def check_typescript(folder):
    """Node, and what removes types for it."""
    write(folder, "typed.ts", "enum Up { A = 5 }\nconst n: number = Up.A;\nconsole.log(n, [3].at(-1));\n")
    ran(["esbuild", "--log-level=error", "--outfile=typed.js", "typed.ts"], folder)
    ran(["node", "typed.js"], folder, "5 3")


def check_node(folder):
    """Node, and a package that npm packs, installs without a network and runs."""
    write(folder, "package.json", '{"name": "own", "version": "1.0.0", "bin": "own.js", "scripts": {"hi": "node own.js"}}')
    write(folder, "own.js", '#!/usr/bin/env node\nconsole.log("up", [..."abc"].toReversed().join(""));\n')
    cache = "--cache=" + os.path.join(folder, "cache")
    ran(["node", "--input-type=module", "-e", 'import fs from "node:fs"; console.log(fs.existsSync("own.js"), typeof fetch)'], folder, "true function")
    ran(["npm", "run", "-s", cache, "hi"], folder, "up cba")
    ran(["npm", "pack", "-s", cache], folder, "own-1.0.0.tgz")
    ran(["npm", "install", "-s", "--offline", cache, "--prefix", "other", "./own-1.0.0.tgz"], folder)
    ran(["npx", "--offline", cache, "--prefix", "other", "own"], folder, "up cba")


CHECKS = (
    ("polars", check_frames), ("pptx", check_slides), ("plotly", check_page), ("imageio_ffmpeg", check_commands),
    ("cv2", check_film), ("pytesseract", check_letters),
    ("matplotlib", check_charts), ("pandas", check_tables), ("scipy", check_numbers),
    ("reportlab", check_report),
)


def main(modules):
    start = time.monotonic()
    for name in modules:
        try:
            importlib.import_module(name)
        except Exception as e:  # any failure means an image that cannot be used
            problems.append(f"import {name}: {e!r}")
    others = [name for name in OTHERS if importlib.util.find_spec(name.split(".")[0])]
    for name in others:
        try:
            importlib.import_module(name)
        except Exception as e:  # as above
            problems.append(f"import {name}: {e!r}")
    print(f"imported {len(modules)} modules and {len(others)} others in {time.monotonic() - start:.2f} s")
    check_byte_code()
    with tempfile.TemporaryDirectory() as folder:
        for needs, check in CHECKS:
            if importlib.util.find_spec(needs):
                try:
                    check(folder)
                except Exception as e:
                    problems.append(f"{needs}: {e!r}")
        for program, check in (("g++", check_compilers), ("esbuild", check_typescript), ("npm", check_node)):
            if shutil.which(program):
                check(folder)
    for p in problems:
        print("E: image check: " + p)
    return 1 if problems else 0


sys.exit(main(sys.argv[1:]))
