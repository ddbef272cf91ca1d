# SPDX-License-Identifier: Apache-2.0
"""What data work does across packages, most of which have no tests of their own in Debian: files there and back, charts,
documents, processes that share memory, a server on loopback."""

import asyncio
import concurrent.futures
import ctypes
import http.server
import io
import multiprocessing
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import unittest
import urllib.request
from multiprocessing import shared_memory


def square_sum(name, size):
    import numpy as np
    block = shared_memory.SharedMemory(name=name)
    try:
        return float((np.ndarray(size, dtype="f8", buffer=block.buf) ** 2).sum())
    finally:
        block.close()


class InFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(dir=os.getcwd())
        self.addCleanup(folder.cleanup)
        self.folder = folder.name


class Tables(InFolder):
    def setUp(self):
        super().setUp()
        import numpy as np
        import pandas as pd
        self.pd = pd
        self.frame = pd.DataFrame({"n": np.arange(100), "x": np.linspace(0, 1, 100), "s": [f"äöü {i}" for i in range(100)]})

    def same(self, other):
        self.pd.testing.assert_frame_equal(self.frame, other, check_dtype=False)

    def test_csv(self):
        for name in "t.csv", "t.csv.gz", "t.csv.xz", "t.csv.zip":
            self.frame.to_csv(f"{self.folder}/{name}", index=False)
            self.same(self.pd.read_csv(f"{self.folder}/{name}"))

    def test_excel(self):
        self.frame.to_excel(f"{self.folder}/t.xlsx", index=False)
        self.same(self.pd.read_excel(f"{self.folder}/t.xlsx"))

    def test_openpyxl_alone(self):
        import openpyxl
        book = openpyxl.Workbook()
        book.active.append(["a", 1, "=SUM(B1:B1)"])
        book.save(f"{self.folder}/b.xlsx")
        self.assertEqual([c.value for c in openpyxl.load_workbook(f"{self.folder}/b.xlsx").active[1]], ["a", 1, "=SUM(B1:B1)"])

    def test_parquet_and_feather_mapped(self):
        import pyarrow.feather as feather
        import pyarrow.parquet as parquet
        self.frame.to_parquet(f"{self.folder}/t.parquet")
        self.same(parquet.read_table(f"{self.folder}/t.parquet", memory_map=True).to_pandas())
        feather.write_feather(self.frame, f"{self.folder}/t.feather", compression="uncompressed")
        self.same(feather.read_feather(f"{self.folder}/t.feather", memory_map=True))

    def test_dataset(self):
        import pyarrow.dataset as dataset
        import pyarrow as pa
        table = pa.Table.from_pandas(self.frame.assign(part=self.frame.n % 3))
        dataset.write_dataset(table, f"{self.folder}/set", format="parquet", partitioning=["part"], partitioning_flavor="hive")
        self.assertEqual(dataset.dataset(f"{self.folder}/set", partitioning="hive").count_rows(), 100)

    def test_sqlite(self):
        with sqlite3.connect(f"{self.folder}/t.db") as db:
            db.execute("PRAGMA journal_mode=WAL")
            self.frame.to_sql("t", db, index=False)
            self.same(self.pd.read_sql("SELECT * FROM t", db))
            self.assertEqual(self.pd.read_sql("SELECT count(*) AS c FROM t WHERE x > 0.5", db).c[0], 50)
        db.close()

    def test_json_pickle_html_xml(self):
        for name, read in ("t.json", self.pd.read_json), ("t.pkl", self.pd.read_pickle), ("t.xml", self.pd.read_xml):
            path = f"{self.folder}/{name}"
            {"t.json": self.frame.to_json, "t.pkl": self.frame.to_pickle, "t.xml": lambda p: self.frame.to_xml(p, index=False)}[name](path)
            self.same(read(path))


class Pictures(InFolder):
    def test_seaborn(self):
        import matplotlib.pyplot as plt
        import pandas as pd
        import seaborn as sns
        frame = pd.DataFrame({"x": range(30), "y": [i * i % 7 for i in range(30)], "g": list("abc") * 10})
        for draw in sns.scatterplot, sns.lineplot, sns.boxplot, sns.histplot:
            figure, axes = plt.subplots()
            draw(data=frame, x="x", y="y", hue="g", ax=axes)
            figure.savefig(f"{self.folder}/{draw.__name__}.png")
            plt.close(figure)
        self.assertEqual(len(os.listdir(self.folder)), 4)

    def test_formats(self):
        import matplotlib.pyplot as plt
        figure, axes = plt.subplots()
        axes.plot([1, 2, 3], label="Ωж中")
        axes.legend()
        for kind, head in ("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml"), ("jpg", b"\xff\xd8"):
            out = io.BytesIO()
            figure.savefig(out, format=kind)
            self.assertTrue(out.getvalue().startswith(head), kind)
        plt.close(figure)

    def test_animation(self):
        import matplotlib.animation as animation
        import matplotlib.pyplot as plt
        figure, axes = plt.subplots()
        line, = axes.plot([0, 1])
        animation.FuncAnimation(figure, lambda i: line.set_ydata([0, i]), frames=4).save(f"{self.folder}/a.gif", writer="pillow")
        plt.close(figure)
        with open(f"{self.folder}/a.gif", "rb") as f:
            self.assertEqual(f.read(4), b"GIF8")

    def test_pillow(self):
        import numpy as np
        from PIL import Image, ImageDraw, ImageFilter
        image = Image.fromarray(np.arange(64 * 64 * 3, dtype="u1").reshape(64, 64, 3))
        ImageDraw.Draw(image).rectangle((8, 8, 24, 24), fill="red")
        for name in "a.png", "a.jpg", "a.webp", "a.bmp", "a.tiff":
            image.filter(ImageFilter.BLUR).resize((32, 32)).save(f"{self.folder}/{name}")
            with Image.open(f"{self.folder}/{name}") as back:
                self.assertEqual(back.size, (32, 32))

    def test_reportlab(self):
        from reportlab.lib.styles import getSampleStyleSheet
        from reportlab.platypus import Paragraph, SimpleDocTemplate, Table
        SimpleDocTemplate(f"{self.folder}/r.pdf").build([Paragraph("A report", getSampleStyleSheet()["Title"]), Table([["a", 1], ["b", 2]])])
        with open(f"{self.folder}/r.pdf", "rb") as f:
            self.assertEqual(f.read(4), b"%PDF")


class Numbers(unittest.TestCase):
    def test_scipy(self):
        import numpy as np
        from scipy import fft, integrate, linalg, optimize, sparse, stats
        self.assertAlmostEqual(optimize.minimize(lambda v: (v[0] - 3) ** 2, [0.0]).x[0], 3, places=4)
        self.assertAlmostEqual(integrate.quad(np.exp, 0, 1)[0], np.e - 1)
        self.assertAlmostEqual(stats.norm.cdf(1.96), 0.975, places=3)
        a = np.random.default_rng(1).random((200, 200))
        np.testing.assert_allclose(linalg.inv(a) @ a, np.eye(200), atol=1e-8)
        np.testing.assert_allclose(fft.ifft(fft.fft(a[0], workers=2)).real, a[0])
        self.assertEqual(sparse.eye(1000).tocsr().nnz, 1000)

    def test_threads_of_the_linear_algebra(self):
        import numpy as np
        a = np.ones((600, 600))
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            self.assertEqual({float((m @ m)[0, 0]) for m in pool.map(lambda _: a, range(8))}, {600.0})

    def test_sympy(self):
        import sympy
        x = sympy.Symbol("x")
        self.assertEqual(sympy.integrate(x ** 2, x), x ** 3 / 3)
        self.assertEqual(sympy.solve(x ** 2 - 4), [-2, 2])

    def test_lxml(self):
        from lxml import etree
        self.assertEqual(etree.fromstring("<a><b n='1'/></a>").xpath("//b/@n"), ["1"])


class Processes(InFolder):
    def test_pools_share_memory(self):
        import numpy as np
        block = shared_memory.SharedMemory(create=True, size=8 * 1000)
        try:
            np.ndarray(1000, dtype="f8", buffer=block.buf)[:] = 2.0
            for method in "fork", "spawn", "forkserver":
                with multiprocessing.get_context(method).Pool(2) as pool:
                    self.assertEqual(pool.starmap(square_sum, [(block.name, 1000)] * 4), [4000.0] * 4)
        finally:
            block.close()
            block.unlink()

    def test_executor(self):
        with concurrent.futures.ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("fork")) as pool:
            self.assertEqual(list(pool.map(abs, range(-5, 5))), [5, 4, 3, 2, 1, 0, 1, 2, 3, 4])

    def test_pipeline_of_programs(self):
        r = subprocess.run("printf '3\\n1\\n2\\n' | sort | tr '\\n' ' '", shell=True, capture_output=True, text=True)
        self.assertEqual(r.stdout, "1 2 3 ")

    def test_deadline_and_signal(self):
        with self.assertRaises(subprocess.TimeoutExpired):
            subprocess.run(["sleep", "600"], timeout=0.2)
        child = subprocess.Popen(["sleep", "600"])
        child.send_signal(signal.SIGTERM)
        self.assertEqual(child.wait(), -signal.SIGTERM)

    def test_c_library(self):
        libc = ctypes.CDLL(None, use_errno=True)
        self.assertEqual(libc.getpid(), os.getpid())
        self.assertEqual(libc.close(-1), -1)
        self.assertEqual(ctypes.get_errno(), 9)


class Libraries(unittest.TestCase):
    """The C library must know its loaded libraries by the paths that the sandbox sees, or it loads them twice."""

    def test_every_loaded_library_is_found_by_its_path(self):
        import numpy.linalg  # noqa: F401
        with open("/proc/self/maps") as f:
            lines = [line.rstrip().split(None, 5) for line in f]
        paths = {part[5] for part in lines if len(part) == 6 and part[5][0] == "/" and ".so" in part[5]}
        self.assertGreater(len(paths), 5)
        missing = []
        for path in sorted({os.path.realpath(path) for path in paths}):
            try:
                ctypes.CDLL(path, mode=os.RTLD_NOW | os.RTLD_NOLOAD)
            except OSError:
                missing.append(path)
        # glibc keeps no device and inode of the loader itself
        self.assertEqual([path for path in missing if not os.path.basename(path).startswith("ld-linux")], [])

    def test_estimators_that_ask_for_thread_pools(self):
        import numpy as np
        import threadpoolctl
        from sklearn.cluster import KMeans
        from sklearn.metrics import pairwise_distances_argmin
        from sklearn.mixture import GaussianMixture
        data = np.vstack([np.random.rand(50, 2), np.random.rand(50, 2) + 9])
        self.assertEqual(sorted(np.bincount(KMeans(2, n_init=1).fit_predict(data))), [50, 50])
        self.assertEqual(sorted(np.bincount(GaussianMixture(2).fit_predict(data))), [50, 50])
        self.assertEqual(list(pairwise_distances_argmin([[0], [9]], [[9], [0]])), [1, 0])
        self.assertIn("openblas", {pool["internal_api"] for pool in threadpoolctl.threadpool_info()})


class Loopback(unittest.TestCase):
    def test_server_and_client(self):
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200)
                self.end_headers()
                self.wfile.write(self.path.encode())

            def log_message(self, *_):
                pass
        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/hello") as answer:
                self.assertEqual(answer.read(), b"/hello")
            server.shutdown()

    def test_asyncio(self):
        async def main():
            async def serve(reader, writer):
                writer.write((await reader.readline()).upper())
                await writer.drain()
                writer.close()
            server = await asyncio.start_server(serve, "127.0.0.1", 0)
            async with server:
                reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
                writer.write(b"hello\n")
                line = await reader.readline()
                writer.close()
            child = await asyncio.create_subprocess_exec(sys.executable, "-c", "print(6 * 7)", stdout=asyncio.subprocess.PIPE)
            return line, (await child.communicate())[0]
        self.assertEqual(asyncio.run(main()), (b"HELLO\n", b"42\n"))
