# SPDX-License-Identifier: Apache-2.0
"""Tries a new image from inside: python3 - MODULE... ; exits 1 with what is wrong.

Every module that the image preloads must import, every compiled file must be current (a stale one
is compiled again at each start, because the root is read-only), and where the science packages
are there each must do its main job on disk.
"""

import importlib
import importlib.util
import os
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
    "psutil", "joblib",
)
LABELS = "Größe Ωμέγα Жук 中文 日本語 한국어"
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
    from reportlab.lib.styles import getSampleStyleSheet
    from reportlab.pdfgen import canvas
    from reportlab.platypus import Paragraph
    path = os.path.join(folder, "report.pdf")
    page = canvas.Canvas(path)
    page.drawString(72, 720, LABELS)
    page.setFont("Times-Bold", 12)
    page.drawString(72, 690, LABELS)
    style = getSampleStyleSheet()["Normal"]
    paragraph = Paragraph(LABELS, style)
    paragraph.wrapOn(page, 400, 100)
    paragraph.drawOn(page, 72, 650)
    page.save()
    with pdfplumber.open(path) as pdf:
        text = pdf.pages[0].extract_text()
    if text.count(LABELS) != 3:
        problems.append(f"reportlab: the PDF has other letters than were drawn: {text!r}")


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


def check_commands(folder):
    for words in (["uv", "--version"], ["curl", "--version"], ["git", "init", "-q", folder + "/r"], ["perl", "-e", "1"],
                  ["ffmpeg", "-loglevel", "error", "-f", "lavfi", "-i", "testsrc=d=1", folder + "/film.mp4"]):
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            problems.append(f"{words[0]}: {done.stdout}{done.stderr}")


CHECKS = (
    ("polars", check_frames), ("pptx", check_slides), ("plotly", check_page), ("imageio_ffmpeg", check_commands),
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
    for p in problems:
        print("E: image check: " + p)
    return 1 if problems else 0


sys.exit(main(sys.argv[1:]))
