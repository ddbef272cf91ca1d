// SPDX-License-Identifier: Apache-2.0
// Uses of libraries that keep threads, processes, pools or connections from one cell to the next.

/** What a session has after its process was killed. */
export type After = 'unchanged' | 'carried' | 'lost';

export interface Library {
	/** What is installed first. The other libraries are in the image `science`. */
	packages?: string;
	/** The first cell. */
	begin: string;
	/** A cell that may run any number of times. Its value is the same every time. */
	use: string;
	/** Default: unchanged. */
	after?: After;
	/** The variables that cannot be carried. */
	gone?: string[];
	/** Why USE fails after a kill: what it needs was a thread, a process or a connection. */
	dead?: RegExp;
	/** Sandbox of this size instead of 1 GiB. */
	memory?: string;
}

const boost = (library: string, model: string): string => `import ${library} as L, numpy as np
X = np.random.rand(2000, 5); y = (X[:, 0] > .5) * 1
m = L.${model}`;
const fitted = 'm.fit(X, y).predict(X[:2]).shape';

export const libraries: Record<string, Library> = {
	'numpy': { begin: 'import numpy as np\na = np.random.rand(500, 500)', use: 'np.linalg.svd(a)[1].shape, (a @ a).shape' },
	'pandas and pyarrow': { begin: "import pandas as pd\ndf = pd.DataFrame({'k': [i % 7 for i in range(9999)]})", use: "df.to_parquet('t.parquet'); len(pd.read_parquet('t.parquet').groupby('k').size())", after: 'unchanged' },
	'scipy.fft': { begin: 'import scipy.fft, numpy as np\na = np.ones((200, 200))', use: 'scipy.fft.fft2(a, workers=4).shape' },
	'scikit-learn: KMeans': { begin: 'from sklearn.cluster import KMeans\nimport numpy as np\nX = np.random.rand(3000, 4)', use: 'KMeans(3, n_init=1).fit(X).labels_.shape' },
	'scikit-learn: cross validation in processes': { begin: 'from sklearn.model_selection import cross_val_score\nfrom sklearn.tree import DecisionTreeClassifier as T\nimport numpy as np\nX = np.random.rand(300, 4); y = (X[:, 0] > .5) * 1', use: 'cross_val_score(T(), X, y, n_jobs=2).shape' },
	'scikit-learn: forest in threads': { begin: 'from sklearn.ensemble import RandomForestClassifier as R\nimport numpy as np\nX = np.random.rand(300, 4); y = (X[:, 0] > .5) * 1', use: 'R(10, n_jobs=2).fit(X, y).predict(X[:3]).shape' },
	'joblib: threads': { begin: 'from joblib import Parallel, delayed as d', use: "sum(Parallel(2, prefer='threads')(d(pow)(i, 2) for i in range(4)))" },
	'joblib: multiprocessing': { begin: 'from joblib import Parallel, delayed as d', use: "sum(Parallel(2, backend='multiprocessing')(d(pow)(i, 2) for i in range(4)))" },
	'polars': { begin: "import polars as pl\ndf = pl.DataFrame({'k': [i % 7 for i in range(100000)]})", use: "df.lazy().group_by('k').agg(pl.len()).collect().height", after: 'carried' },
	'duckdb': { begin: "import duckdb\nc = duckdb.connect(); c.execute('SET threads=4'); c.execute('create table t as select i from range(300000) r(i)');", use: "c.execute('select max(i) from t').fetchone()", after: 'carried', gone: ['c'], dead: /NameError/ },
	'sqlite': { begin: "import sqlite3\nc = sqlite3.connect('a.db'); c.execute('create table if not exists t(x)'); c.execute('insert into t values(1)'); c.commit()", use: "c.execute('select count(*) > 0 from t').fetchone()", dead: /ProgrammingError: Cannot operate on a closed database/ },
	'statsmodels': { begin: 'import statsmodels.api as sm, numpy as np\nX = np.random.rand(100, 3); y = X.sum(1)', use: 'sm.OLS(y, X).fit().params.shape' },
	'matplotlib': { begin: "import matplotlib.pyplot as plt\nf, ax = plt.subplots(); ax.plot([1, 2]); plt.close()", use: "f.savefig('p.png'); len(ax.lines)" },
	'lightgbm': { packages: 'lightgbm', begin: boost('lightgbm', 'LGBMClassifier(n_estimators=5, verbose=-1, n_jobs=4)'), use: fitted },
	'xgboost': { packages: 'xgboost-cpu', begin: boost('xgboost', 'XGBClassifier(n_estimators=5, n_jobs=4)'), use: fitted },
	'catboost': { packages: 'catboost', begin: boost('catboost', 'CatBoostClassifier(iterations=5, verbose=0, thread_count=4)'), use: fitted, after: 'carried' },
	'numba': { packages: 'numba', begin: `import numba as nb, numpy as np
@nb.njit(parallel=True)
def f(a):
    s = 0.0
    for i in nb.prange(a.size): s += a[i]
    return s
a = np.ones(100000)`, use: 'f(a)' },
	'numexpr': { packages: 'numexpr', begin: 'import numexpr as ne, numpy as np\na = np.ones(10**6)', use: "float(ne.evaluate('a + 1').sum())" },
	'tokenizers': { packages: 'tokenizers', begin: `from tokenizers import Tokenizer, models, trainers
t = Tokenizer(models.BPE()); t.train_from_iterator(['hello world foo bar'] * 100, trainers.BpeTrainer(vocab_size=100))`, use: "len(t.encode_batch(['hello world'] * 100))" },
	'aiohttp': { packages: 'aiohttp', begin: `import aiohttp, asyncio
from aiohttp import web
async def h(r): return web.Response(text='ok')
async def go():
    app = web.Application(); app.router.add_get('/', h); r = web.AppRunner(app)
    await r.setup(); await web.TCPSite(r, '127.0.0.1', 0).start()
    async with aiohttp.ClientSession() as s:
        async with s.get(f'http://127.0.0.1:{r.addresses[0][1]}/') as q: v = await q.text()
    await r.cleanup()
    return v`, use: 'await go()' },
	'httpx': { packages: 'httpx', begin: `import httpx, http.server, threading
srv = http.server.ThreadingHTTPServer(('127.0.0.1', 0), http.server.SimpleHTTPRequestHandler)
threading.Thread(target=srv.serve_forever, daemon=True).start()
c = httpx.Client()`, use: "c.get(f'http://127.0.0.1:{srv.server_port}/', timeout=3).status_code" },
	'sqlalchemy': { packages: 'sqlalchemy', begin: `import sqlalchemy as sa
e = sa.create_engine('sqlite:///x.db')
with e.begin() as c: c.execute(sa.text('create table if not exists t(x)')); c.execute(sa.text('insert into t values(1)'))
del c`, use: "e.connect().execute(sa.text('select count(*) > 0 from t')).scalar()" },
	'aiosqlite': { packages: 'aiosqlite', begin: "import aiosqlite\ndb = await aiosqlite.connect('a.db'); await db.execute('create table if not exists t(x)'); await db.execute('insert into t values(1)');", use: "(await (await db.execute('select count(*) > 0 from t')).fetchone())[0]", dead: /ValueError: (no active connection|Connection closed)/ },
	'sqlalchemy with aiosqlite': { packages: 'sqlalchemy aiosqlite greenlet', begin: `from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy import text
e = create_async_engine('sqlite+aiosqlite:///b.db')
async def go():
    async with e.begin() as c: return (await c.execute(text('select 5'))).scalar()
async def again():
    try: return await go()
    except Exception: return await go()`, use: 'await again()' },
	'grpcio': { packages: 'grpcio', begin: `import grpc
from concurrent import futures
class H(grpc.GenericRpcHandler):
    def service(self, d): return grpc.unary_unary_rpc_method_handler(lambda r, c: r)
def go():
    s = grpc.server(futures.ThreadPoolExecutor(2)); s.add_generic_rpc_handlers((H(),))
    port = s.add_insecure_port('127.0.0.1:0'); s.start()
    c = grpc.insecure_channel(f'127.0.0.1:{port}'); v = c.unary_unary('/a/b')(b'hi', timeout=5); c.close(); s.stop(0).wait()
    return v`, use: 'go()' },
	'grpcio: a server on the loop': { packages: 'grpcio', begin: `import grpc
class H(grpc.GenericRpcHandler):
    def service(self, d): return grpc.unary_unary_rpc_method_handler(self.f)
    async def f(self, r, c): return r
s = grpc.aio.server(); s.add_generic_rpc_handlers((H(),)); port = s.add_insecure_port('127.0.0.1:0'); await s.start()
c = grpc.aio.insecure_channel(f'127.0.0.1:{port}')`, use: "await c.unary_unary('/a/b')(b'hi', timeout=5)", after: 'carried', gone: ['s', 'c'], dead: /NameError/ },
	'lmdb': { packages: 'lmdb', begin: "import lmdb\ntry: e.close()\nexcept NameError: pass\ne = lmdb.open('l', map_size=1 << 24); t = e.begin(write=True); t.put(b'a', b'1')\n", use: "t.commit(); t = e.begin(write=True); t.put(b'a', b'2')", dead: /lmdb.*Error/ },
	'pyzmq': { packages: 'pyzmq', begin: `import zmq
def go():
    c = zmq.Context(); a = c.socket(zmq.PAIR); a.bind('inproc://x'); b = c.socket(zmq.PAIR); b.connect('inproc://x')
    b.send(b'1'); v = a.recv(); a.close(); b.close(); c.term()
    return v`, use: 'go()' },
	'pyzmq over TCP': { packages: 'pyzmq', begin: `import zmq
ctx = zmq.Context(); a = ctx.socket(zmq.REP); b = ctx.socket(zmq.REQ)
b.connect('tcp://127.0.0.1:%d' % a.bind_to_random_port('tcp://127.0.0.1')); a.RCVTIMEO = b.RCVTIMEO = 3000`, use: "b.send(b'1'); a.send(a.recv()); b.recv()", after: 'carried', gone: ['ctx', 'a', 'b'], dead: /NameError/ },
	'uvloop': { packages: 'uvloop', begin: 'import uvloop\nasync def f(): return 5', use: 'uvloop.run(f())' },
	'trio': { packages: 'trio', begin: 'import trio\nasync def m(): return await trio.to_thread.run_sync(lambda: 7)', use: 'trio.run(m)' },
	'gevent': { packages: 'gevent', begin: 'import gevent\ndef go(): return [g.get() for g in [gevent.spawn(lambda: 1) for i in range(3)]]', use: 'go()' },
	'dask': { packages: 'dask[array]', begin: 'import dask.array as da\nx = da.ones((1000, 1000), chunks=100)', use: 'float(x.sum().compute())' },
	'onnxruntime': { packages: 'onnxruntime onnx', begin: `import onnxruntime as o, onnx, numpy as np
from onnx import helper as h, TensorProto as T
g = h.make_graph([h.make_node('Relu', ['x'], ['y'])], 'g', [h.make_tensor_value_info('x', T.FLOAT, [None])], [h.make_tensor_value_info('y', T.FLOAT, [None])])
mod = h.make_model(g, opset_imports=[h.make_opsetid('', 13)]); mod.ir_version = 8
s = o.InferenceSession(mod.SerializeToString())`, use: "s.run(None, {'x': np.ones(3, np.float32)})[0].shape", after: 'carried', gone: ['s'], dead: /NameError/ },
	'faiss': { packages: 'faiss-cpu', begin: "import faiss, numpy as np\nx = np.random.rand(5000, 16).astype('f4'); i = faiss.IndexFlatL2(16); i.add(x)", use: 'i.search(x[:50], 3)[1].shape' },
	'h5py': { packages: 'h5py', begin: "import h5py\nf = h5py.File('a.h5', 'w'); f['x'] = [1, 2, 3]", use: "int(f['x'][:].sum())" },
	'datafusion': { packages: 'datafusion', begin: "import datafusion as d\nc = d.SessionContext(); df = c.from_pydict({'a': [1, 2, 3]})", use: 'df.count()', after: 'carried', gone: ['c', 'df'], dead: /NameError/ },
	'lancedb': { packages: 'lancedb', begin: "import lancedb\ndb = lancedb.connect('lance'); t = db.create_table('t', [{'id': 1, 'vector': [1.0, 2.0]}], mode='overwrite')", use: 't.count_rows()', after: 'carried', gone: ['db', 't'], dead: /NameError/ },
	'ortools': { packages: 'ortools', begin: `from ortools.sat.python import cp_model as cp
def go():
    m = cp.CpModel(); x = m.new_int_var(0, 10, 'x'); m.maximize(x); s = cp.CpSolver(); s.parameters.num_workers = 4; s.solve(m)
    return s.value(x)`, use: 'go()' },
	'cvxpy': { packages: 'cvxpy', begin: 'import cvxpy as cp\ndef go():\n    x = cp.Variable(3); return abs(round(cp.Problem(cp.Minimize(cp.sum_squares(x - 1))).solve(), 3))', use: 'go()' },
	'spacy': { packages: 'spacy', begin: "import spacy\nn = spacy.blank('en')", use: "len(list(n.pipe(['a b c'] * 10)))" },
	'geopandas': { packages: 'shapely geopandas', begin: 'import shapely, geopandas as g\ns = g.GeoSeries([shapely.Point(0, 0), shapely.Point(1, 1)])', use: 'float(s.buffer(1).area.sum()) > 6' },
	'threads': { begin: 'from concurrent.futures import *\np = ThreadPoolExecutor(2)', use: 'p.submit(pow, 2, 5).result(9)' },
	'processes': { begin: 'from concurrent.futures import *\np = ProcessPoolExecutor(2)', use: 'p.submit(pow, 2, 5).result(9)' },
	'processes that start anew': { begin: "from concurrent.futures import *\nimport multiprocessing as mp\ndef f(x): return x * 2\np = ProcessPoolExecutor(2, mp_context=mp.get_context('spawn'))", use: 'p.submit(f, 4).result(20)' },
	'multiprocessing.Pool': { begin: 'import multiprocessing as mp\np = mp.Pool(2)', use: 'p.map(abs, [-1, 2])' },
	'loky': { packages: 'loky', begin: 'from loky import get_reusable_executor\ne = get_reusable_executor(2)', use: 'e.submit(pow, 2, 3).result(15), get_reusable_executor(2).submit(pow, 2, 4).result(15)' },
	'anyio: a portal': { packages: 'anyio', begin: `import anyio.from_thread
made = anyio.from_thread.start_blocking_portal(); portal = made.__enter__()
async def f(): return 5`, use: 'portal.call(f)', dead: /RunFinishedError|RuntimeError/ },
	'distributed': { packages: 'distributed', begin: `from distributed import Client
c = Client(processes=False, n_workers=1, threads_per_worker=2, dashboard_address=None)`, use: 'c.submit(pow, 2, 10, pure=False).result(timeout=9)', dead: /IOLoop is closed/ },
	'a Jupyter kernel': { packages: 'jupyter_client ipykernel', begin: `from jupyter_client.manager import start_new_kernel
km, kc = start_new_kernel(startup_timeout=30)`, use: "kc.execute_interactive('x = 1', timeout=9)['content']['status']", after: 'carried', gone: ['km', 'kc'], dead: /NameError/ },
	'websockets in a thread': { packages: 'websockets', begin: `from websockets.sync.server import serve
from websockets.sync.client import connect
import threading
def echo(ws):
    for m in ws: ws.send(m * 2)
srv = serve(echo, '127.0.0.1', 0); threading.Thread(target=srv.serve_forever, daemon=True).start()
c = connect('ws://127.0.0.1:%d' % srv.socket.getsockname()[1])`, use: "c.send('x'); c.recv(timeout=3)", dead: /ConnectionClosed/ },
	'tornado in a thread': { packages: 'tornado', begin: `import asyncio, socket, threading, tornado.web
from tornado.httpclient import AsyncHTTPClient
from tornado.httpserver import HTTPServer
class H(tornado.web.RequestHandler):
    def get(self): self.write('hi')
s = socket.create_server(('127.0.0.1', 0)); s.setblocking(False)
async def main():
    HTTPServer(tornado.web.Application([('/', H)])).add_socket(s); await asyncio.Event().wait()
threading.Thread(target=asyncio.run, args=(main(),), daemon=True).start()
url = 'http://127.0.0.1:%d/' % s.getsockname()[1]`, use: '(await AsyncHTTPClient().fetch(url, request_timeout=3)).body', dead: /Error/ },
	'pexpect': { packages: 'pexpect', begin: "import pexpect\nch = pexpect.spawn('cat', echo=False)", use: "ch.sendline('x'); ch.expect('x', timeout=3)", dead: /ExceptionPexpect|EOF/ },
	'gymnasium in processes': { packages: 'gymnasium', begin: "import gymnasium as gym\ne = gym.vector.AsyncVectorEnv([lambda: gym.make('CartPole-v1')] * 2); e.reset();", use: 'e.step([0, 1]); e.reset()[0].shape', dead: /BrokenPipeError/ },
	'a manager': { begin: 'import multiprocessing as mp\nm = mp.Manager(); d = m.dict()', use: 'd.update(a=1); dict(d)', dead: /Error/ },
	'a worker with queues': { begin: `import multiprocessing as mp
q, r = mp.Queue(), mp.Queue()
def w(q, r):
    while True: r.put(q.get() * 2)
p = mp.Process(target=w, args=(q, r), daemon=True); p.start()`, use: 'q.put(4); r.get(timeout=3)', dead: /Error|Empty/ },
	'interpreters': { begin: 'from concurrent.futures import InterpreterPoolExecutor\np = InterpreterPoolExecutor(2)', use: 'p.submit(pow, 2, 5).result()', after: 'lost', dead: /NameError/ },
	'asyncio: a thread': { begin: 'import asyncio', use: 'await asyncio.wait_for(asyncio.to_thread(lambda: 21), 9)' },
	'asyncio: a child': { begin: "import asyncio\np = await asyncio.create_subprocess_exec('cat', stdin=-1, stdout=-1)", use: "p.stdin.write(b'x\\n'); await p.stdin.drain(); (await asyncio.wait_for(p.stdout.readline(), 3)) or 1 / 0  # b'': its end", dead: /ZeroDivisionError|ConnectionResetError/ },
	'a child that one talks to': { begin: "import subprocess\np = subprocess.Popen(['cat'], stdin=-1, stdout=-1, text=True, bufsize=1)", use: "p.stdin.write('x\\n'); p.stdout.readline()", dead: /BrokenPipeError|ValueError/ },
	'jax': { packages: 'jax', begin: 'import jax, jax.numpy as jnp\nf = jax.jit(lambda x: (x @ x).sum()); x = jnp.ones((300, 300))', use: 'float(f(x))', after: 'carried' },
	'pathos': { packages: 'pathos', begin: 'from pathos.multiprocessing import ProcessingPool as P\np = P(2)', use: 'p.map(lambda x: x * 2, [1, 2])' },
	'fastapi': { packages: 'fastapi uvicorn httpx', begin: `import fastapi, httpx, socket, threading, time, uvicorn
app = fastapi.FastAPI()
@app.get('/')
def root(): return {'a': 1}
s = socket.create_server(('127.0.0.1', 0)); url = 'http://127.0.0.1:%d/' % s.getsockname()[1]; srv = uvicorn.Server(uvicorn.Config(app, log_level='warning'))
threading.Thread(target=srv.run, kwargs={'sockets': [s]}, daemon=True).start()
while not srv.started: time.sleep(.05)`, use: 'httpx.get(url, timeout=3).json()', dead: /Error|Timeout/ },
	'opencv': { packages: 'opencv-python-headless', begin: 'import cv2, numpy as np\ncv2.setNumThreads(4); a = np.ones((2000, 2000), np.uint8)', use: 'cv2.GaussianBlur(a, (9, 9), 2).shape', after: 'carried' },
	'chromadb': { packages: 'chromadb', begin: "import chromadb\nc = chromadb.PersistentClient('chroma'); k = c.get_or_create_collection('some'); k.upsert(ids=['a'], embeddings=[[1.0, 2.0]])", use: 'k.count()', after: 'carried', gone: ['c', 'k'], dead: /NameError/ },
};
