// SPDX-License-Identifier: Apache-2.0
// A session lives: threads, pools, loops, servers, locks and children of one cell are there in the next, an interrupt
// keeps everything, and a crash takes back the one cell. Each row is a session of its own.

import assert from 'node:assert/strict';
import { it } from 'node:test';
import { facts, matrix, type Json } from '../lib/session.ts';

type Wanted = { result?: string | RegExp; stdout?: string | RegExp; stderr?: RegExp; state?: string; reason?: string; code?: number; hint?: RegExp; gone?: string[]; s?: number; shell?: boolean; fresh?: boolean; restart?: boolean };
type Cell = [code: string, wanted: Wanted];

const SERVER = `import http.server, threading, urllib.request
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self): self.send_response(200); self.end_headers(); self.wfile.write(b'pong')
    def log_message(self, *a): pass
threading.Thread(target=http.server.HTTPServer(('127.0.0.1', 8123), H).serve_forever, daemon=True).start()`;
const CHILD = (port: number, more = ''): string => `import subprocess, sys, time, urllib.request, socket
p = subprocess.Popen([sys.executable, '-m', 'http.server', '${port}', '-b', '127.0.0.1']${more})
for i in range(500):
    try: socket.create_connection(('127.0.0.1', ${port})).close(); break
    except OSError: time.sleep(.02)`;
const BOOST = `import os; os.environ['OMP_NUM_THREADS'] = '4'
import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier as H
X = np.random.rand(3000, 6); y = (X[:, 0] > .5) * 1
m = H(max_iter=5).fit(X, y)`;

/** A thread that Python does not know, so that no fork of the session can go on. */
const THREAD = `import ctypes, os
libc = ctypes.CDLL(None); libc.pthread_create(ctypes.byref(ctypes.c_ulong()), None, libc.pause, None); del libc`;

/** Every kind of frame on every socket that is there, with names that are no text. */
const FORGE = `def forge():
    import os, socket, struct
    n = 0
    for kind in range(16):
        for frame in (struct.pack('=IiII152s', kind, 0, 4000000000, 4000000000, b'\\xff' * 100), struct.pack('=Ii', kind, 0)):
            for fd in range(3, 200):
                try: socket.socket(fileno=os.dup(fd)).send(frame); n += 1
                except OSError: pass
    return n`;

const rows: Record<string, Cell[]> = {
	'OpenMP': [[BOOST, { s: 60 }], ['m = H(max_iter=5).fit(X, y); 6 * 7', { result: '42', s: 60 }], ['import os; os.kill(os.getpid(), 11)', { state: 'unchanged' }], ['m = H(max_iter=5).fit(X, y); 6 * 7', { result: '42', s: 60 }]],
	'what scikit-learn asks of the machine': [['import numpy as np\nfrom sklearn.ensemble import HistGradientBoostingRegressor as H\nX = np.random.rand(500, 3)\nH(max_iter=2).fit(X, X[:, 0]).predict(X[:2]).shape', { s: 60, result: '(2,)', stderr: /^$/ }]],
	'joblib': [['from joblib import Parallel, delayed as d\nsum(Parallel(n_jobs=2)(d(pow)(i, 2) for i in range(4)))', { result: '14', s: 60 }], ['sum(Parallel(n_jobs=2)(d(pow)(i, 2) for i in range(4)))', { result: '14', s: 60 }]],
	'a pool of threads': [['from concurrent.futures import *\np = ThreadPoolExecutor(2); p.submit(pow, 2, 5).result()', { result: '32' }], ['p.submit(pow, 2, 6).result(4)', { result: '64' }]],
	'a pool of processes': [['from concurrent.futures import *\np = ProcessPoolExecutor(2); p.submit(pow, 2, 5).result()', { result: '32' }], ['p.submit(pow, 2, 6).result(4)', { result: '64' }]],
	'asyncio.to_thread': [['import asyncio\nawait asyncio.to_thread(lambda: 21)', { result: '21' }], ['await asyncio.wait_for(asyncio.to_thread(lambda: 22), 4)', { result: '22' }]],
	'a thread that counts': [['import threading, time\nn = 0\ndef w():\n global n\n while 1: n += 1; time.sleep(.01)\nthreading.Thread(target=w, daemon=True).start()', { hint: /go on in the session's next run/ }],
		['a = n\nwhile n == a: time.sleep(.01)\nn > a', { result: 'True' }], ['a = n', {}]],
	'a server in a thread': [[SERVER, {}], ["urllib.request.urlopen('http://127.0.0.1:8123/', timeout=4).read()", { result: "b'pong'" }],
		["python3 -c \"import urllib.request as u; print(u.urlopen('http://127.0.0.1:8123/', timeout=9).read())\"", { shell: true, stdout: "b'pong'\n" }]],
	'a server process, and what it writes later': [[CHILD(8124), {}], ["[urllib.request.urlopen('http://127.0.0.1:8124/').status for i in range(2)]", { result: '[200, 200]' }], ['print(p.poll())', { stdout: /None\n$/ }],
		["python3 -c \"import urllib.request as u; print(u.urlopen('http://127.0.0.1:8124/', timeout=9).status)\"", { shell: true, stdout: '200\n' }],
		['p.poll()', { stderr: /"GET \/ HTTP\/1.1" 200/, hint: /of stderr are late/ }]],
	'a child that one talks to': [["import subprocess\np = subprocess.Popen(['cat'], stdin=-1, stdout=-1)", {}], ["p.communicate(b'hi', timeout=4), p.returncode", { result: "((b'hi', None), 0)" }]],
	'a port that is bound again': [["import socket\ns = socket.socket(); s.bind(('127.0.0.1', 5555)); s.listen()", {}], ["s.close(); s = socket.socket(); s.bind(('127.0.0.1', 5555)); s.listen(); 6 * 7", { result: '42' }]],
	'a lock that is released': [["import fcntl\nf = open('lk', 'w'); fcntl.flock(f, 2)", {}], ["f.close(); import subprocess; subprocess.run(['flock', '-n', 'lk', 'true']).returncode", { result: '0' }]],
	'an open transaction': [["import sqlite3\nc = sqlite3.connect('a.db'); c.execute('create table t(x)'); c.execute('insert into t values(1)')", {}],
		["c.execute('insert into t values(2)'); c.commit(); c.execute('select count(*) from t').fetchone()", { result: '(2,)' }]],
	'an interrupt': [['x = 1', {}], ['x = 2; import time; time.sleep(60)', { s: 1, reason: 'timeout', state: 'kept', stderr: /KeyboardInterrupt/, hint: /^The run was interrupted after its 1 s; what it did before that is kept\./ }], ['x', { result: '2' }]],
	'an interrupt of what waits for a child': [['x = 1', {}], ["x = 2; import os; os.system('sleep 60')", { s: 1, reason: 'timeout', state: 'kept' }], ['x', { result: '2' }]],
	'an interrupt of what waits for a thread': [['x = 1', {}], ['x = 2\nimport time, concurrent.futures as f\nwith f.ThreadPoolExecutor(1) as e: list(e.map(time.sleep, [40]))', { s: 1, reason: 'timeout', state: 'kept' }], ['x', { result: '2' }]],
	'an interrupt of an await': [['x = 1', {}], ['import asyncio\nx = 2; await asyncio.sleep(60)', { s: 1, reason: 'timeout', state: 'kept', stderr: /await asyncio\.sleep\(60\)[^]*KeyboardInterrupt/ }], ['await asyncio.sleep(0); len(asyncio.all_tasks()), x', { result: '(1, 2)' }]],
	'an interrupt whose handler native code has taken away': [['import ctypes; ctypes.CDLL(None).signal(2, None); x = 1', {}], ['x = 2; import time; time.sleep(60)', { s: 1, reason: 'timeout', state: 'kept' }], ['x', { result: '2' }]],
	'an interrupt of the import of a package': [["import os, sys; os.mkdir('pk'); sys.path.insert(0, '.')\nopen('pk/a.py', 'w').write('x = 5')\nopen('pk/b.py', 'w').write('y = 6')\nopen('pk/__init__.py', 'w').write('from .a import *; import builtins, time\\nif not hasattr(builtins, \"again\"): builtins.again = 1; time.sleep(60)\\nfrom .b import *\\nz = a.x + b.y')", {}],
		['import pk', { s: 1, reason: 'timeout', state: 'kept' }], ['import pk; pk.z, pk.a is sys.modules["pk.a"]', { result: '(11, True)' }]],
	'an import of a package that ends in the middle': [["import os, sys; os.mkdir('pk'); sys.path.insert(0, '.')\nopen('pk/a.py', 'w').write('x = 5')\nopen('pk/__init__.py', 'w').write('from .a import *; import builtins\\nif not hasattr(builtins, \"again\"): builtins.again = 1; raise KeyboardInterrupt\\nz = a.x')", {}],
		['import pk', { code: 1, stderr: /KeyboardInterrupt/ }], ['import pk; pk.z, pk.a is sys.modules["pk.a"]', { result: '(5, True)' }]],
	'a cell that closes all descriptors': [['x = 1', {}], ['x = 2; import os; os.closerange(3, 1000); x', { result: '2' }], ["x = 3\nfor fd in range(3, 400):\n    try: os.close(fd)\n    except OSError: pass\nx", { result: '3' }], ['import ctypes; ctypes.CDLL(None).closefrom(3); 1 / 0', { code: 1, stderr: /ZeroDivisionError/ }],
		['os.closerange(0, 5000)', {}], ["try: os.dup2(1, 100)\nexcept OSError: pass\nprint(x)", { stdout: '3\n' }], ["pid = os.fork()\nif pid == 0: os.closerange(3, 5000); os._exit(len(os.listdir('/proc/self/fd')))\nos.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])", { result: '4' }], ['os._exit(1)', { code: 1, state: 'unchanged' }], ['os.closerange(3, 1000); x', { result: '3' }]],
	'a loop whose descriptors are closed with all others': [['import asyncio, os\nawait asyncio.sleep(0)\nos.closerange(3, 1000)\nawait asyncio.sleep(.01)\n7', { result: '7' }], ['os.closerange(3, 1000)', {}], ['await asyncio.to_thread(lambda: 8)', { result: '8' }], ['asyncio.get_event_loop().run_until_complete(asyncio.sleep(.01, 9))', { result: '9' }]],
	'what no interrupt reaches': [['x = 1', {}], ['x = 2; sum(range(10**12))', { s: 1, reason: 'timeout', state: 'unchanged', hint: /did not react to an interrupt after its 1 s/ }], ['x', { result: '1' }]],
	'an interrupt that is ignored': [['x = 1', {}], ['x = 2; import signal; signal.signal(2, signal.SIG_IGN)\nwhile True: pass', { s: 1, reason: 'timeout', state: 'unchanged' }], ['x', { result: '1' }]],
	'a crash, and a pool of threads': [['from concurrent.futures import *\np = ThreadPoolExecutor(2); x = 1; p.submit(pow, 2, 5).result()', { result: '32' }], ['x = 2; import os; os.abort()', { state: 'unchanged', reason: 'signaled' }], ['x, p.submit(pow, 2, 6).result(4)', { result: '(1, 64)' }]],
	'a crash, and a pool of processes': [['from concurrent.futures import *\np = ProcessPoolExecutor(2); x = 1; p.submit(pow, 2, 5).result()', { result: '32' }], ['x = 2; import os; os.abort()', { state: 'unchanged' }], ['x, p.submit(pow, 2, 6).result(9)', { result: '(1, 64)' }]],
	'a crash, and the first transaction of an SQLite file': [["import sqlite3, os\nc = sqlite3.connect('n.db'); c.execute('pragma cache_size=2'); c.execute('begin'); c.execute('create table t(x)')\nc.executemany('insert into t values(?)', [('y' * 900,)] * 200); d = sqlite3.connect('o.db'); d.execute('begin'); d.execute('create table t(x)'); os.path.getsize('o.db')", { result: '0' }],
		["c.commit(); d.execute('pragma cache_size=2'); d.executemany('insert into t values(?)', [('y' * 900,)] * 200); os.abort()", { state: 'unchanged', gone: ['connections'] }],
		["[(k.execute('select count(*) from sqlite_master').fetchone(), k.execute('pragma integrity_check').fetchone()) for k in (sqlite3.connect('n.db', timeout=4), sqlite3.connect('o.db', timeout=4))]", { result: "[((1,), ('ok',)), ((0,), ('ok',))]" }], ["sqlite3.connect('n.db').execute('select count(*) from t').fetchone()", { result: '(200,)' }]],
	'a crash, and a barrier': [['import threading\nb = threading.Barrier(2); t = threading.Thread(target=b.wait, daemon=True); t.start()\nwhile b.n_waiting < 1: pass\nb._state = 1  # as when the other one has been told and has not left yet', {}], ['import os; os.abort()', { state: 'unchanged' }],
		['b.n_waiting, threading.Thread(target=b.wait, daemon=True).start(), b.wait(4) in (0, 1)', { result: '(0, None, True)' }]],
	'a crash, and an SQLite file that was still empty': [["import sqlite3\nc = sqlite3.connect('e.db')", {}], ['import os; os.abort()', { state: 'unchanged', gone: undefined }], ["c.execute('create table t(x)'); c.execute('insert into t values(1)'); c.commit(); sqlite3.connect('e.db').execute('select * from t').fetchall()", { result: '[(1,)]' }]],
	'a crash, and a queue whose thread is gone': [['import queue, threading\nq = queue.Queue()\ndef w():\n    while True: q.get(); q.task_done()\nt = threading.Thread(target=w, daemon=True); t.start(); q.put(1); q.join()', {}], ['import os; os.abort()', { state: 'unchanged', gone: ['threads'] }],
		['q.put(1); q.join()', { code: 1, stderr: /RuntimeError: this would wait for ever: no other thread is there/ }], ['threading.Event().wait(.01)', { result: 'False' }], ['import os; os.abort()', { state: 'unchanged' }],
		['t = threading.Thread(target=w, daemon=True); t.start(); q.join(); q.put(1); q.join(); q.unfinished_tasks', { result: '0' }]],
	'a crash, and a loop': [['import asyncio\nawait asyncio.to_thread(lambda: 21)', { result: '21' }], ['import os; os.abort()', { state: 'unchanged' }], ['await asyncio.wait_for(asyncio.to_thread(lambda: 22), 4)', { result: '22' }]],
	'a crash, and a child': [["import subprocess\np = subprocess.Popen(['sleep', '60'])", {}], ['import os; os.abort()', { state: 'unchanged', hint: /as before this run; the processes of earlier runs are gone\./ }], ['p.poll()', { result: '-9' }]],
	'a crash, and a log that a thread writes': [["import io, logging, logging.handlers, queue, threading\nq, text = queue.Queue(), io.StringIO(); told = threading.Event()\nclass H(logging.StreamHandler):\n    def emit(self, record): super().emit(record); told.set()\nl = logging.handlers.QueueListener(q, H(text)); l.start()\nlog = logging.getLogger('own'); log.addHandler(logging.handlers.QueueHandler(q)); log.warning('one'); told.wait(9), told.clear()", { result: '(True, None)' }],
		['import os; os._exit(3)', { code: 3, state: 'unchanged', gone: undefined, hint: /^The session's process ended in this run; the variables are as before it\.$/ }], ["log.warning('two'); told.wait(9), text.getvalue()", { result: "(True, 'one\\ntwo\\n')" }], ["log.warning('three'); l.stop(); text.getvalue()", { result: "'one\\ntwo\\nthree\\n'" }]],
	'settings that are carried': [[`${THREAD}\nimport decimal, gc, signal, warnings; x = 1; warnings.simplefilter('error'); decimal.getcontext().prec = 5; os.umask(0o077); gc.set_threshold(500, 5, 5); gc.disable(); hit = []\ndef h(*a): hit.append(x)\nsignal.signal(signal.SIGTERM, h); __version__ = '1'`, {}], ['os._exit(3)', { code: 3, state: 'carried', stderr: /^$/, hint: /^A new interpreter has 10 variables of the session, as they were before this run\.$/ }],
		["x = 2; os.kill(os.getpid(), signal.SIGTERM)\ntry: warnings.warn('x'); r = 'no'\nexcept UserWarning: r = 'yes'\nr, str(decimal.Decimal(1) / 3), oct(os.umask(0o077)), gc.isenabled(), gc.get_threshold()[0], hit, __version__", { result: "('yes', '0.33333', '0o77', False, 500, [2], '1')" }]],
	'settings of libraries that are carried': [[`${THREAD}\nimport matplotlib.pyplot as plt, numpy as np, pandas as pd\nnp.set_printoptions(precision=2); pd.set_option('display.max_rows', 7); plt.style.use('ggplot'); plt.rcParams['lines.linewidth'] = 9`, { s: 60 }], ['os._exit(3)', { code: 3, state: 'carried', s: 60 }], ["np.array([1 / 3]), pd.get_option('display.max_rows'), plt.rcParams['lines.linewidth'], plt.rcParams['axes.facecolor']", { s: 60, result: "(array([0.33]), 7, 9.0, '#E5E5E5')" }]],
	'a session that is carried from a folder that has been removed': [[`${THREAD}\nx = 1; os.mkdir('gone'); os.chdir('gone'); os.rmdir('/mnt/data/gone')`, {}], ['os._exit(3)', { code: 3, state: 'carried' }], ['x, os.getcwd()', { result: "(1, '/mnt/data')" }]],
	'connections between processes, and carrying': [[`${THREAD}\nimport multiprocessing as mp; x = 1; a, b = mp.Pipe(); many = [a]`, {}], ['os._exit(3)', { code: 3, state: 'carried', hint: /Gone: a, b, many\./ }], ["x, [n for n in ('a', 'b', 'many') if n in globals()]", { result: '(1, [])' }]],
	'a crash, and timers': [["import threading\nrang, quiet = threading.Event(), []\nt = threading.Timer(2, rang.set); t.start(); threading.Timer(600, quiet.append, (2,)).start(); c = threading.Timer(600, quiet.append, (1,)); c.start()", {}], ['import os; os._exit(3)', { code: 3, state: 'unchanged', hint: /^The session's process ended/ }],
		['t.is_alive(), rang.wait(9), c.cancel(), c.join(9), c.is_alive(), quiet, threading.active_count()', { result: '(True, True, None, None, False, [], 2)' }]],
	'a crash, and what would be told of an end for ever': [["import asyncio, os\nr, w = os.pipe(); seen, got = [], []; loop = asyncio.get_event_loop(); loop.add_reader(r, lambda: seen.append(1))\nclass P(asyncio.DatagramProtocol):\n    def datagram_received(self, data, address): got.append(data)\nt, p = await loop.create_datagram_endpoint(P, local_addr=('127.0.0.1', 0))", {}], ['os._exit(3)', { code: 3, state: 'unchanged', gone: ['connections'] }],
		['for i in range(9): await asyncio.sleep(.001)\nseen, got, t.is_closing()', { result: '([], [], True)' }]],
	'a crash, and objects of processes': [["import multiprocessing as mp, time\np, q = mp.Process(target=time.sleep, args=(600,)), mp.Process(target=print, args=('q',)); p.start()", {}], ['import os; os._exit(3)', { code: 3, state: 'unchanged', gone: ['processes'] }], ['p.is_alive(), p.exitcode, p.join(9), mp.active_children(), q.start(), q.join(9), q.exitcode', { stdout: 'q\n', result: '(False, -9, None, [], None, None, 0)' }]],
	'a crash, and what a resource tracker knows of': [["import os, multiprocessing as mp\nfrom multiprocessing import shared_memory as sm\nctx = mp.get_context('spawn'); lock = ctx.Lock(); s = sm.SharedMemory(create=True, size=9); s.buf[0] = 7", {}],
		...[0, 1, 2, 3, 4, 5].map((): Cell => ['os._exit(3)', { code: 3, state: 'unchanged', stderr: /^$/ }]), ["other = sm.SharedMemory(s.name); p = ctx.Process(target=len, args=((lock,),)); p.start(); p.join(20)\nother.buf[0], p.exitcode, lock.acquire(False), s.unlink()", { s: 60, result: '(7, 0, True, None)' }]],
	'a crash, and a scheduler': [["import sched, threading\ns, ticked = sched.scheduler(), threading.Event()\ndef tick(): ticked.set(); s.enter(.02, 1, tick)\ntick(); th = threading.Thread(target=s.run, daemon=True); th.start()", {}], ['import os; os._exit(3)', { code: 3, state: 'unchanged' }], ['ticked.clear(), ticked.wait(9), th.is_alive()', { result: '(None, True, True)' }]],
	'a crash, and servers in threads': [[`${SERVER.replace('http.server.HTTPServer(', 'sv := http.server.ThreadingHTTPServer(').replace('(target=sv := ', '(target=(sv := ').replace('H).serve', 'H)).serve')}`, {}], ['import os; os._exit(3)', { code: 3, state: 'unchanged', hint: /^The session's process ended in this run; the variables are as before it\.$/ }],
		["urllib.request.urlopen('http://127.0.0.1:8123/', timeout=9).read()", { result: "b'pong'" }], ['sv.shutdown(); sv.server_close()\ndef serve(): own.serve_forever()\nown = http.server.HTTPServer(("127.0.0.1", 0), H); threading.Thread(target=serve, daemon=True).start()', {}],
		['import os; os._exit(3)', { code: 3, state: 'unchanged', gone: ['threads', 'connections'] }], ['own.shutdown(); own.server_close()', { s: 9 }]],
	'a crash, and queues between processes': [["import multiprocessing as mp\nq, j, s = mp.Queue(), mp.JoinableQueue(5), mp.SimpleQueue()\nheld = mp.Process(target=q.get, daemon=True); held.start()\nq.put(1); j.put(2); held.join(9); held = mp.Process(target=q.get, daemon=True); held.start()", {}], ['import os; os._exit(3)', { code: 3, state: 'unchanged' }],
		["def w(q, j, s): q.put(j.get() + 1); j.task_done(); s.put('s')\np = mp.Process(target=w, args=(q, j, s)); p.start(); j.put(6); j.join(); q.get(timeout=9), s.get(), p.join(9), p.exitcode", { s: 20, result: "(7, 's', None, 0)" }]],
	'a crash, and what a loop waits for': [["import asyncio\nd = await asyncio.create_subprocess_exec('cat', stdin=-1, stdout=-1)\nasync def h(r, w): w.write(await r.read(9)); await w.drain()\nsv = await asyncio.start_server(h, '127.0.0.1', 0); r, w = await asyncio.open_connection(*sv.sockets[0].getsockname())\nline, ended, more = asyncio.create_task(d.stdout.readline()), asyncio.create_task(d.wait()), asyncio.create_task(r.read())\nawait asyncio.sleep(0)", {}],
		['import os; os._exit(3)', { code: 3, state: 'unchanged', gone: ['processes', 'connections'] }], ['await asyncio.gather(line, ended, more), sv.is_serving()', { s: 20, result: "([b'', -9, b''], False)", stderr: /^$/ }]],
	'a crash, and the watchdog of faulthandler': [["import faulthandler, signal\nfaulthandler.enable(); faulthandler.register(signal.SIGUSR2); faulthandler.dump_traceback_later(300)", {}], ['import os; os._exit(3)', { code: 3, state: 'unchanged' }], ['faulthandler.is_enabled(), faulthandler.unregister(signal.SIGUSR2), faulthandler.cancel_dump_traceback_later(), faulthandler.dump_traceback_later(300)', { s: 9, result: '(True, True, None, None)' }],
		["import time\nfaulthandler.dump_traceback_later(.1, exit=True)", {}], ['time.sleep(60)', { code: 1, state: 'unchanged', stderr: /^Timeout \(0:00:00\.100000\)!/ }], ['faulthandler.cancel_dump_traceback_later()', {}]],
	'what is said of a run that is ended': [["import threading, time\nx = 1; threading.Thread(target=time.sleep, args=(600,), daemon=True).start()", {}], ['sum(range(10**13))', { s: 1, reason: 'timeout', state: 'unchanged', stderr: /^$/, hint: /^The run did not react to an interrupt after its 1 s and was ended\. Do less [^.]*\. The variables are as before this run; the threads of earlier runs are gone\.$/ }]],
	'no memory': [['x = 1', {}], ['x = 2\nb = [bytearray(50_000_000) for i in range(1000)]', { state: /kept|unchanged/.source }], ['x', { result: /^[12]$/ }]],
	'exits': [['x = 1', {}], ['x = 2; import sys; sys.exit(3)', { code: 3, state: 'kept' }], ['x = 3; import os; os._exit(4)', { code: 4, state: 'unchanged' }], ['x', { result: '2' }]],
	'a child at the end of a cell': [["import os\npid = os.fork()\nif pid == 0: print('child')\nelse: os.waitpid(pid, 0); v = 42; print('parent')", { stdout: 'child\nparent\n' }], ['v', { result: '42' }]],
	'an alarm that is left': [['import signal\nx = 1; signal.alarm(1)', {}], ['import time; time.sleep(1.5); x', { result: '1' }]],
	'an alarm that is left with a handler': [['import signal\ndef late(*a): raise TimeoutError\nsignal.signal(signal.SIGALRM, late); signal.setitimer(signal.ITIMER_REAL, .05); x = 1', {}], ['sleep .2', { shell: true }], ['import time; time.sleep(.1); x', { result: '1' }]],
	'where a file is read on after a crash': [["f = open('o', 'w+'); f.write('0123456789'); f.flush(); f.seek(2)", { result: '2' }], ['f.read(4); import os; os.abort()', { state: 'unchanged' }], ['f.read(2)', { result: "'23'" }]],
	'a file without a name after a crash': [["import tempfile\nf = tempfile.TemporaryFile('w+'); f.write('abc'); f.flush(); f.seek(1)", { result: '1' }], ['f.read(); import os; os.abort()', { state: 'unchanged' }], ['f.read()', { result: "'bc'" }]],
	'children that one waits for': [0, 1].map(() => ['import os\nfor i in range(2):\n if os.fork() == 0: os._exit(0)\nn = 0\nwhile 1:\n try: os.wait(); n += 1\n except ChildProcessError: break\nn', { result: '2' }]),
	'streams that a program wraps': [["import sys, io\nsys.stdout = io.TextIOWrapper(sys.stdout.buffer, encoding='utf-8')\nprint(1 + 1)", { stdout: '2\n' }], ["sys.stdout = io.TextIOWrapper(sys.stdout.buffer, encoding='utf-8')\nprint(1 + 2)", { stdout: '3\n' }],
		['print(1 + 3)', { stdout: '4\n' }], ["import codecs; sys.stdout = codecs.getwriter('utf-8')(sys.stdout.buffer); print('ä')", { stdout: 'ä\n' }], ["sys.stdout = sys.__stdout__; sys.stdout.detach(); None", {}], ['print(5)', { stdout: '5\n' }]],
	'streams that a program closes': [["import logging, faulthandler, sys, os\nlogging.basicConfig(stream=sys.stdout); faulthandler.enable(); os.close(1); os.dup2(2, 0)", {}], ["logging.warning('w'); sys.stdout.close()", { stdout: 'WARNING:root:w\n' }],
		['print(1); quit()', { stdout: '1\n', code: 0 }], ["try: input()\nexcept EOFError: print('eof')", { stdout: 'eof\n' }], ["print('x'); sys.stderr.close()", { stdout: 'x\n' }], ['1/0', { code: 1, stderr: /ZeroDivisionError/ }]],
	'names of a notebook': [['1 + 1', { result: '2' }], ['_ * 10', { result: '20' }], ['_, __, _i, In[2], Out[1]', { result: "(20, 2, '_ * 10', '_ * 10', 2)" }], ['for i in range(40): pass\nlen(Out)', { result: '3' }]],
	'a loop as notebooks use it': [['import asyncio\nasync def f(): return 5\nasyncio.get_event_loop().run_until_complete(f())', { result: '5' }], ['asyncio.run(f())', { result: '5' }], ['asyncio.get_event_loop().run_until_complete(f()) + asyncio.run(f())', { result: '10' }], ['await f()', { result: '5' }],
		['t = asyncio.create_task(f())\nawait t', { result: '5' }]],
	'a module that is edited': [["open('k.py', 'w').write('x = 1\\n')\nimport k, importlib\nopen('k.py', 'w').write('x = 2\\n')\nimportlib.reload(k).x", { result: '2' }], ["import subprocess, sys\ndef run(n):\n    open('one.py', 'w').write(f'V = {n}\\n')\n    return subprocess.run([sys.executable, '-c', 'import one; print(one.V)'], stdout=-1, text=True).stdout.strip()\nrun(3), run(4), run(5)", { result: "('3', '4', '5')" }]],
	'workers that start anew': [["import dataclasses, multiprocessing as mp\nTABLE = [10, 20]\n@dataclasses.dataclass\nclass P:\n    a: int\np, hidden = P(4), (i for i in 'x')\ndef look(i): return TABLE[i] + p.a, type(p) is P", {}],
		["TABLE.append(30)\nfrom concurrent.futures import ProcessPoolExecutor as E\nwith E(2, mp_context=mp.get_context('spawn')) as ex: print(list(ex.map(look, range(3))))", { stdout: '[(14, True), (24, True), (34, True)]\n' }], ["p.a = 5\nwith mp.get_context('forkserver').Pool(2) as q: print(q.map(look, [0]))", { stdout: '[(15, True)]\n' }]],
	'%autoreload': [["%load_ext autoreload\n%autoreload 2\nopen('m.py', 'w').write('def f(): return 1\\nclass C:\\n  def g(self): return 1\\n')\nimport m\nfrom m import f, C\nc = C(); f(), c.g(), m.f()", { result: '(1, 1, 1)' }],
		["open('m.py', 'w').write('def f(): return 2\\nclass C:\\n  def g(self): return 2\\n');", {}], ['f(), c.g(), m.f()', { result: '(2, 2, 2)' }], ["open('m.py', 'w').write('def f(: return 3\\n');", {}], ['f()', { result: '2', stderr: /^\[autoreload of m failed: SyntaxError/ }]],
	'polars, and a crash': [["import polars as pl\ndf = pl.DataFrame({'k': [i % 7 for i in range(100000)]})\nmany = pl.concat([df] * 20, rechunk=False)\ndf.group_by('k').agg(pl.len()).height", { result: '7', s: 60 }], ["x = 1; import sqlite3; con = sqlite3.connect(':memory:')\ndef f(): return x + 1", {}],
		['import os; os.abort()', { state: 'carried', hint: /A new interpreter has 6 variables of the session, as they were before this run\. Gone: con\./ }], ["x = 5; f(), df.group_by('k').agg(pl.len()).height, many.height", { result: '(6, 7, 2000000)' }], ['import os; os._exit(3)', { state: 'carried', code: 3 }], ["f(), df.group_by('k').agg(pl.len()).height", { result: '(6, 7)' }]],
	'duckdb, and a crash': [["import duckdb\nc = duckdb.connect(); c.execute('SET threads=4'); x = 1; c.execute('select count(*) from range(3000000)').fetchone()", { result: '(3000000,)', s: 60 }], ['import os; os.abort()', { state: 'carried', hint: /Gone: c\./ }], ["x, duckdb.sql('select 42').fetchall()", { result: '(1, [(42,)])' }]],
	'what is carried': [[`${THREAD}
import abc, collections, dataclasses, enum, functools, random, sys
OFFSET = 1
def f(x, *, y=2): return x + y + OFFSET
def counter():
    n = 0
    def inc():
        nonlocal n
        n += 1
        return n
    return inc, lambda: n
inc, get = counter(); inc()
@functools.lru_cache(maxsize=5)
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
class Color(enum.Enum): RED = 1; BLUE = 2
@dataclasses.dataclass
class P:
    x: int
    y: float = 2.0
    def norm(self): return self.x * OFFSET
class Base(abc.ABC):
    @abc.abstractmethod
    def m(self): ...
class D(Base):
    def m(self): return super().__repr__()[:12]
NT = collections.namedtuple('NT', 'a b')
p, d, nt, c = P(3), D(), NT(1, 2), Color.RED
shared = [1]; other = {'s': shared}
gen = (i for i in range(3)); file = open('x.txt', 'w')
def recursive(n): return 1 if n == 0 else n * recursive(n - 1)
class Unreadable(Exception):
    def __init__(self, a, b): super().__init__(a)
error = Unreadable(1, 2); holds = {'error': error}; after = [7]
os.environ['MINE'] = 'yes'; os.chdir('/tmp'); sys.path.append('/tmp/more'); random.seed(3); state = random.getstate()
1 + 1`, { result: '2' }],
	['os.abort()', { state: 'carried', hint: /Gone: gen, file, error, holds\./ }],
	["OFFSET = 100; f(1), inc(), get(), fib(30), Color.RED is c, Color(2).name, p, p.norm(), dataclasses.asdict(p), d.m(), nt.b, shared is other['s'], recursive(5), after", { result: /^\(103, 2, 2, 832040, True, 'BLUE', P\(x=3, y=2\.0\), 300, \{'x': 3, 'y': 2\.0\}, '<__main__\.D ', 2, True, 120, \[7\]\)$/ }],
	["_[0], Out[1], In[1][:6], os.environ['MINE'], os.getcwd(), sys.path[-1], random.getstate() == state", { result: "(103, 2, 'import', 'yes', '/tmp', '/tmp/more', True)" }],
	["f('a')", { code: 1, stderr: /<cell 1>[^]*def f\(x, \*, y=2\): return x \+ y \+ OFFSET/ }]],
	'what is carried twice': [[`import functools\n@functools.lru_cache(maxsize=5)\ndef fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)\nx = 1\n${THREAD}`, {}], ['os.abort()', { state: 'carried' }], [`fib(30), fib.cache_parameters()\n${THREAD}`, {}], ['os.abort()', { state: 'carried' }],
		['fib(30), fib.cache_parameters(), x', { result: "(832040, {'maxsize': 5, 'typed': False}, 1)" }]],
	'what is carried without cloudpickle': [[`import sys, functools\nsys.modules['cloudpickle'] = sys.modules['joblib.externals'] = None\n@functools.cache\ndef fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)\nclass C: pass\nc = C()\n@functools.singledispatch\ndef show(x): return 'any'\nshow.register(int, lambda x: 'int')\n${THREAD}`, {}],
		['os.abort()', { state: 'carried', hint: /Gone: C, c\./ }], ["fib(30), fib.cache_info().misses, show(1), show('')", { result: "(832040, 31, 'int', 'any')" }]],
	'what is carried of functions that dispatch on a type': [[`import functools, os, numbers
@functools.singledispatch
def show(x): 'Shows.'; return 'any'
show.mark = 5
@show.register
def _(x: int): return f'int {OFFSET}'
@show.register(list)
def _(x): return [show(y) for y in x]
show.register(numbers.Complex, lambda x: 'complex')
def nested():
    @functools.singledispatch
    def f(x): return f.registry.keys() == {object, str}
    f.register(str, lambda x: f(0))
    return f
inner, OFFSET = nested(), 1
class C:
    @functools.singledispatchmethod
    def m(self, x): return 'any'
    @m.register
    def _(self, x: int): return self.n + x
    @functools.singledispatchmethod
    @classmethod
    def k(cls, x): return cls.__name__
    @k.register(str)
    @classmethod
    def _(cls, x): return x
    n = 1
@show.register
def _(x: C): return 'C'
c = C()
${THREAD}`, {}], ['os.abort()', { state: 'carried', hint: /as they were before this run\.$/m }],
		["OFFSET = 7; show([1, 'a', 2.5, c]), show.mark, show.__doc__, show.__name__, inner('x'), c.m(2), c.m(''), C.k(1), C.k('s')", { result: "(['int 7', 'any', 'complex', 'C'], 5, 'Shows.', 'show', True, 3, 'any', 'C', 's')" }],
		[`show.register(bytes, lambda x: 'bytes'), show(b'')\n${THREAD}`, {}], ['os.abort()', { state: 'carried' }], ["show([b'', 1])", { result: "['bytes', 'int 7']" }]],
	'what is carried, and a module that hides another': [["open('tabulate.py', 'w').write('X = 8')\nopen('uuid.py', 'w').write('X = 9');", { fresh: true }], [`${THREAD}\nimport uuid\nx = 1\ndef f(): return x`, {}], ['os.abort()', { state: 'carried' }], ['x = 2; f(), uuid.X', { result: '(2, 9)' }]],
	'what is carried, and an interrupt whose handler native code has taken away': [[`${THREAD}\nx = 1`, {}], ['os.abort()', { state: 'carried' }], ['import ctypes; ctypes.CDLL(None).signal(2, None);', {}], ['x = 2; import time; time.sleep(60)', { s: 1, reason: 'timeout', state: 'kept' }], ['x', { result: '2' }]],
	'an interrupt that a cell sends itself, when native code has taken the handler away': [['import ctypes; ctypes.CDLL(None).signal(2, None); x = 1', {}], ['x = 2\nimport os, time\nos.kill(os.getpid(), 2); time.sleep(9)', { code: 1, state: 'kept', stderr: /KeyboardInterrupt/ }], ['x', { result: '2' }]],
	'what cannot be written in time': [[`${THREAD}\nimport time\nclass Slow:\n    def __reduce__(self): time.sleep(99)\nslow, x = Slow(), 1`, {}], ['os.abort()', { state: 'carried', hint: /Gone: slow\./ }], ['x', { result: '1' }]],
	'what cannot be read in time': [[`${THREAD}\nimport time\nslow = time\nclass Slow:\n    def __reduce__(self): return time.sleep, (99,)\nslow, x = Slow(), 1`, { s: 60 }], ['os.abort()', { state: 'lost', hint: /gone: their process did not answer any more\./ }], ['6 * 7', { result: '42' }]],
	'a session that dies while its backup is made': [['x = 1', {}], ['x = 2\nimport os\nos.register_at_fork(before=os.abort)', { state: 'kept' }], ['x', { result: '1', state: 'kept', hint: /Before this run the process of the session had ended by itself: its variables were again those from before the last run\./, gone: ['last run'] }], ['x', { result: '1' }]],
	'a session that does not answer while its backup is made': [['x = 1', {}], ['x = 2\nimport os, time\nos.register_at_fork(before=lambda: time.sleep(99))', { state: 'kept' }], ['x', { s: 60, result: '1', hint: /those from before the last run\./ }]],
	'interpreters within, and a crash': [["import concurrent.interpreters as ci\ni = ci.create(); i.exec('y = 1'); x = 1", {}], ["i.exec('y += 1'); x", { result: '1' }], ['import os; os.abort()', { state: 'lost', hint: /gone: their process ended, and its copy could not go on\./ }], ["'x' in globals()", { result: 'False' }]],
	'a crash, and a library that takes long to import': [[`${THREAD}\nimport sys; sys.path.insert(0, '.'); open('slow.py', 'w').write('import os, time; time.sleep(14 * os.path.exists("later")); C = type("C", (), {})')\nimport slow; x = slow.C(); x.y = 1; open('later', 'w').close()`, {}],
		['sum(range(10**12))', { s: 1, reason: 'timeout', state: 'carried' }], ['x.y', { result: '1' }]],
	'a handler that warns of forks': [["import os, warnings\nos.register_at_fork(before=lambda: warnings.warn('a fork'))", { stderr: /^$/ }], ['x = 1', { stderr: /^$/ }], ['x', { result: '1', stderr: /^$/ }]],
	'a handler that warns of forks, and a crash': [[`${THREAD}\nimport warnings, sys, threading\ndef other():\n    t = threading.Thread(target=sys.stderr.write, args=('from a thread ',)); t.start(); t.join()\nos.register_at_fork(before=lambda: (warnings.warn('a fork'), other())); x = 1`, {}], ['import time; x', { result: '1', stderr: /^(from a thread )+$/ }], ['os.abort()', { state: 'carried', stderr: /^(from a thread )*$/ }], ['x', { result: '1' }]],
	'context variables': [["import asyncio, contextvars\nv = contextvars.ContextVar('v', default=0)\nv.set(1);", {}], ['await asyncio.sleep(0)\nv.set(v.get() + 1);', {}], ['v.get()', { result: '2' }], ['await asyncio.sleep(0)\nv.get()', { result: '2' }]],
	'an open that is not the real one': [["from unittest import mock\np = mock.patch('builtins.open', mock.mock_open(read_data='not real')); p.start();", {}], ["open('x').read()", { result: "'not real'" }], ["p.stop()\nopen('x', 'w').write('real'); open('x').read()", { result: "'real'" }]],
	'a cell that breaks what the next one needs': [['x = 1', {}], ['import sys; x = 2; s = sys.__stdin__; del sys.__stdin__', { state: 'kept' }], ['x', { result: '2' }]],
	'a crash, and another connection to a database': [["import sqlite3\nc = sqlite3.connect('t.db'); c.execute('create table t(x)'); c.execute('insert into t values(1)')\nm = sqlite3.connect(':memory:'); m.execute('create table t(x)'); m.commit(); m.execute(\"attach 'u.db' as u\")\nother = []\nimport threading\nt = threading.Thread(target=lambda: (other.append(sqlite3.connect('w.db')), other[0].execute('create table t(x)'), other[0].execute('insert into t values(1)'))); t.start(); t.join()", {}], ['import os; os.abort()', { state: 'unchanged' }],
		["d = sqlite3.connect('t.db', timeout=1); d.execute('insert into t values(2)'); d.commit(); m.execute('insert into t values(3)')\nw = sqlite3.connect('w.db', timeout=1); w.execute('insert into t values(4)'); w.commit()\nd.execute('select x from t').fetchall(), w.execute('select x from t').fetchall(), m.execute('select x from t').fetchall()", { result: '([(2,)], [(4,)], [(3,)])' }], ["c.execute('select 1')", { code: 1, stderr: /Cannot operate on a closed database/ }]],
	...Object.fromEntries(['delete', 'truncate', 'persist', 'wal'].map((mode): [string, Cell[]] => [`a crash in a transaction that is half written, journal_mode ${mode}`, [[`import os, sqlite3\nc = sqlite3.connect('t.db'); c.execute('pragma journal_mode = ${mode}'); c.execute('create table t(x, y)')\nc.executemany('insert into t values(0, ?)', [('y' * 500,)] * 9000); c.commit()\nc.execute('pragma cache_size = 10'); c.execute('insert into t values(0, 0)'); cursor = c.execute('select x from t'); cursor.fetchone();`, {}],
		["c.execute('update t set x = 1'); os._exit(1)", { state: 'unchanged', code: 1 }], ["c = cursor = None; d = sqlite3.connect('t.db', timeout=5)\nd.execute('select count(*), sum(x) from t').fetchone(), d.execute('pragma integrity_check').fetchone()", { result: "((9000, 0), ('ok',))" }]]])),
	'a crash, and calls that workers were at': [["import multiprocessing as mp, threading, time\nfrom concurrent.futures import ThreadPoolExecutor as T\np = T(1); f = p.submit(threading.Event().wait)\nq = mp.get_context('fork').Pool(1); r = q.apply_async(time.sleep, (600,)); it = q.imap(time.sleep, [600])", {}], ['import os; os.abort()', { state: 'unchanged' }],
		["def kind(call, *args):\n    try: return call(*args)\n    except Exception as e: return type(e).__name__\nkind(f.result, 5), kind(r.get, 5), kind(it.next, 5), kind(it.next, 5), p.submit(pow, 2, 3).result(5), q.apply_async(pow, (2, 3)).get(9)", { result: "('BrokenExecutor', 'BrokenExecutor', 'BrokenExecutor', 'StopIteration', 8, 8)" }]],
	'a crash, and a loop in a thread': [['import asyncio, threading\nloop = asyncio.new_event_loop(); threading.Thread(target=loop.run_forever, daemon=True).start()\nasync def f(): return 5\nasyncio.run_coroutine_threadsafe(f(), loop).result(5)', { result: '5' }], ['import os; os.abort()', { state: 'unchanged' }],
		['asyncio.run_coroutine_threadsafe(f(), loop).result()', { s: 9, code: 1, stderr: /RuntimeError: Event loop is closed/ }], ['await f()', { result: '5' }]],
	'a crash, and threads that wait': [["import queue, threading\nq, held = queue.Queue(), queue.Queue(); held.put(7)\ndef wait(): done.append(q.get())\ndef hold():\n    with held.mutex: threading.Event().wait()\ndone = []\nfor f in wait, hold: threading.Thread(target=f, daemon=True).start()", {}], ['import os; os.abort()', { state: 'unchanged' }],
		['t = threading.Thread(target=wait, daemon=True); t.start()\nwhile not q.not_empty._waiters: pass\nq.put(3); t.join(5); done, held.get(timeout=5)', { s: 15, result: '([3], 7)' }]],
	'a restart': [["import subprocess, threading, time\np = subprocess.Popen(['sleep', '600']); x = 1; open('here', 'w').close()\nthreading.Thread(target=lambda: [time.sleep(.01), print('late')] * 99, daemon=True).start()", { hint: /rest now/ }], ["import os\n'x' in globals(), os.path.exists('here'), In", { restart: true, stdout: '', result: /^\(False, True, \['', / }],
		["import subprocess; subprocess.run(['pgrep', 'sleep']).returncode", { result: '1' }], ['x', { code: 1, restart: true, hint: /first stateful run of a new interpreter/ }]],
	'busy processes': [["import subprocess, sys\nps = [subprocess.Popen([sys.executable, '-c', 'while True: pass']) for i in range(24)]", {}], ['[p.poll() for p in ps].count(None)', { result: '24' }], ['[p.poll() for p in ps].count(None)', { result: '24' }], ['[p.kill() for p in ps]; {p.wait() for p in ps}', { result: '{-9}' }]],
	'300 processes': [["import subprocess\nps = [subprocess.Popen(['sleep', '600']) for i in range(300)]", { s: 60 }], ['sum(p.poll() is None for p in ps)', { result: '300' }], ['[p.kill() for p in ps]; {p.wait() for p in ps}', { result: '{-9}', s: 60 }]],
	'loops of the program after a crash': [['import asyncio, os\nasync def f(n): await asyncio.sleep(.001); return n\nloop, other = asyncio.new_event_loop(), asyncio.new_event_loop()\nloop.run_until_complete(f(1)), other.run_until_complete(f(2))', { result: '(1, 2)' }], ['os._exit(1)', { code: 1, state: 'unchanged' }],
		['loop.run_until_complete(f(3)), other.run_until_complete(f(4)), asyncio.run(f(5))', { result: '(3, 4, 5)' }], ['other.close(); loop.close()', {}]],
	'sys.modules is emptied': [['x = 1', {}], ['import sys; x = 2; sys.modules.clear(); x', { result: '2', stderr: /^Note: this run has removed sys\.modules\. The next run has that again\.\n$/ }], ['import math; x, math.floor(2.5)', { result: '(2, 2)', stderr: /^$/ }],
		["import sys; x = 3; del sys.modules['__main__']; 1 / 0", { code: 1, stderr: /ZeroDivisionError[^]*Note: / }], ['x', { result: '3' }], ['import os; os._exit(1)', { code: 1, state: 'unchanged', hint: /^The session's process ended in this run; the variables are as before it\.$/ }], ['x', { result: '3' }]],
	'builtins are removed': [['x = 1', {}], ['import builtins; x = 2; builtins.__dict__.clear()', { stderr: /Note: this run has removed builtins: / }], ['x, len([1])', { result: '(2, 1)' }],
		['import builtins; del builtins.print; builtins.__import__ = None', { stderr: /builtins: print, __import__\./ }], ['import math; print(x)', { stdout: '2\n' }]],
	'standard streams are removed': [['import sys; x = 2; del sys.stdout, sys.stderr', {}], ['print(x); 1 / 0', { stdout: '2\n', code: 1, stderr: /ZeroDivisionError/ }], ['sys.stdout = sys.stderr = None', {}], ['print(x)', { stdout: '2\n' }]],
	'functions of os are replaced': [["import os; x = 2\nfor n in dir(os):\n  if callable(getattr(os, n)) and n[0] != '_': setattr(os, n, None)", {}], ['x', { result: '2' }]],
	'the descriptors of the session are closed': [['x = 1', {}], ['import ctypes; x = 2; ctypes.CDLL(None).syscall(436, 3, 1000, 0)  # close_range(2)', { state: 'unchanged', stderr: /closed descriptors that are not its own/, hint: /as before it/ }], ['x', { result: '1' }]],
	'no more descriptors': [['import resource as r; x = 1; hard = r.getrlimit(r.RLIMIT_NOFILE)[1]; r.setrlimit(r.RLIMIT_NOFILE, (3, hard))', {}], ['x', { result: '1' }], ['x = 2; r.setrlimit(r.RLIMIT_NOFILE, (3, 3))', { code: 1, state: 'unchanged', stderr: /may open no more files/ }], ['x', { result: '1' }]],
	'a hook that refuses everything': [['import sys; x = 1\ndef h(*a): raise RuntimeError\nsys.addaudithook(h)', {}], ['x', { code: 1, state: 'lost', hint: /its copy could not go on/ }], ['6 * 7', { result: '42' }]],
};

const hostile: Record<string, Cell[]> = {
	'a backup that is killed': [['import os, signal\nx = 1', {}], ['me = os.getpid()\nfor pid in range(2, 4000):\n    if pid != me:\n        try: os.kill(pid, 9)\n        except OSError: pass\nx = 2', { state: 'kept' }], ['x', { result: '2' }]],
	'SIGCONT to all that waits': [['import os, signal\nx = 1', {}], ['for pid in range(2, 4000):\n    try: os.kill(pid, signal.SIGCONT)\n    except OSError: pass\nx = 2', { state: 'kept' }], ['os.abort()', { state: 'unchanged' }], ['x', { result: '2' }]],
	'frames in its own name': [['import os, socket, struct\nx = 1', {}],
		["for fd in range(100, 140):\n    try: socket.socket(fileno=os.dup(fd)).send(struct.pack('=Ii', 11, 0))\n    except OSError: pass\nx = 2", { state: /kept|lost|unchanged/.source }], ['6 * 7', { result: '42' }]],
	'every frame while variables are written': [[`${THREAD}\n${FORGE}\nclass D:\n    def __reduce__(self):\n        forge()\n        return int, ()\nd, x = D(), 1`, {}], ['os.abort()', { state: /lost|carried/.source }], ["globals().get('x', 1)", { result: '1' }]],
	'every frame while variables are read': [[`${THREAD}\n${FORGE}\nclass D:\n    def __reduce__(self): return forge, ()\nd, x = D(), 1`, {}], ['os.abort()', { state: /lost|carried/.source }], ["globals().get('x', 1)", { result: '1' }]],
	'every frame at any time': [[`${FORGE}\nimport threading, time\ndef always():\n    while True: forge(); time.sleep(.001)\nthreading.Thread(target=always, daemon=True).start(); time.sleep(.2)`, { state: /kept|lost|unchanged|carried/.source }], ['import time; time.sleep(.2)', { state: /kept|lost|unchanged|carried/.source, code: undefined }], ['6 * 7', { restart: true, result: '42', state: /kept|lost|unchanged|carried/.source }]],
	'a descriptor for everything': [["import os, resource\nfds = []\ntry:\n    while True: fds.append(os.open('/dev/null', 0))\nexcept OSError: pass\nx = 1", {}], ['x', { result: '1' }], ['os.abort()', { state: 'unchanged' }], ['x', { result: '1' }]],
	'a reaper of its own': [['import os, ctypes; ctypes.CDLL(None).prctl(36, 1, 0, 0, 0); x = 1', {}], ['x', { result: '1' }], ['os.abort()', { state: 'unchanged' }], ['x', { result: '1' }]],
	'a process that begins while variables are written': [[`${THREAD}\nimport subprocess\nclass D:\n    def __reduce__(self):\n        subprocess.Popen(['sleep', '600'], start_new_session=True)\n        return int, ()\nd, x = D(), 1`, {}], ['os.abort()', { state: 'carried' }], ["x, d, subprocess.run(['pgrep', 'sleep']).returncode", { result: '(1, 0, 1)' }]],
	'a process that begins while variables are read': [[`${THREAD}\nimport subprocess\nclass D:\n    def __reduce__(self): return subprocess.getoutput, ('setsid sleep 600 >/dev/null 2>&1 &',)\nd, x = D(), 1`, {}], ['os.abort()', { state: 'carried' }], ["x, d", { result: "(1, '')" }]],
	'a first thread that ends': [['import threading, time, ctypes\nthreading.Thread(target=time.sleep, args=(99,)).start()\nctypes.CDLL(None).syscall(60, 0)', { s: 1, reason: 'timeout', state: 'unchanged' }], ['6 * 7', { result: '42' }]],
	'output that must not wait': [['import os; os.set_blocking(1, False)', {}], ["print('x' * 3000000)", {}]],
	'children that continue each other': [[`import subprocess, time
src = '''
import os, signal
a = os.getpid(); b = os.fork(); c = os.fork() if b else 0
print('on', flush=True)
while True:
    for p in {a, b, c} - {0, os.getpid()}:
        try: os.kill(p, signal.SIGCONT)
        except OSError: pass
'''
p = subprocess.Popen(['python3', '-c', src], stdout=-1); p.stdout.readline()`, { result: "b'on\\n'" }], ['p.kill(); p.wait()', { result: '-9' }]],
};

/** Why the image or the engine of the tests cannot run CELLS; false: it can. */
const lacks = (cells: Cell[]): string | false =>
	process.env.CAISSON_TEST_IMAGE === 'base' && cells.some(([code]) => /sklearn|from joblib|polars|duckdb|matplotlib/.test(code)) ? 'the image base has no such packages'
		: process.env.CAISSON_TEST_ENGINE_ENV && cells.some(([code]) => /closerange/.test(code)) ? 'containers do not have the library that keeps descriptors'
		: (process.env.CAISSON_TEST_ENGINE_ENV ?? '').includes('"runsc"') && cells.some(([code]) => /range\((300|24)\)/.test(code)) && 'a process under gVisor is several on the host (docs/docker-engine.md)';

const titleOf = (name: string, cells: Cell[]): string => (cells.some(([, w]) => w.s) ? '(slow) ' : '') + name;

matrix('a living session', { profile: 'full' }, (s) => {
	let n = 0;

	const play = async (cells: Cell[]): Promise<void> => {
		const session_id = `living${++n}`;
		for (const [code, w] of cells) {
			const more: Json = { ...(w.s && { timeout_s: w.s }), ...(w.restart && { restart: true }) };
			const r = w.shell ? await s().raw('sandbox_run_shell', { command: code, session_id }) : await s().raw('sandbox_run_python', { code, session_id, ...(!w.restart && { stateful: !w.fresh }), ...more });
			const said = facts(r);
			const all = `${code}\n${JSON.stringify(said)}`;
			assert.ok(!said.error, all);
			for (const key of ['result', 'stdout', 'stderr', 'hint', 'reason'] as const)
				if (w[key] instanceof RegExp)
					assert.match(String(said[key] ?? ''), w[key], all);
				else if (w[key] !== undefined)
					assert.equal(said[key], w[key], all);
			if (!w.reason && w.code === undefined && !w.state)
				assert.equal(said.exit_code, 0, all);
			if (w.code !== undefined)
				assert.equal(said.exit_code, w.code, all);
			if (!w.shell && !w.fresh)
				assert.match(said.state, new RegExp(`^(${w.state ?? 'kept'})$`), all);
			if (w.gone)
				assert.deepEqual(said.gone, w.gone, all);
			assert.ok(!said.stderr?.includes('leaked'), all);
		}
		await s().raw('sandbox_delete', { session_id });
	};

	it('(slow) a new interpreter that comes while the one before it ends', async () => {
		for (let i = 0; i < 8; i++)
			await play([['import os; os._exit(4)', { code: 4, state: 'unchanged' }], ['import time; time.sleep(.05)', {}], ['6 * 7', { restart: true, result: '42' }]]);
	});

	for (const [name, cells] of [...Object.entries(rows), ...Object.entries(hostile).map(([n, c]) => [`an attack: ${n}`, c] as const)]) {
		const title = titleOf(name, cells);
		it(title, { skip: lacks(cells) }, () => play(cells));
	}
});
