# SPDX-License-Identifier: Apache-2.0
"""What a backup mends when it takes the place of a session process that has died.

Runs in the same dictionary as zygote.py. A fork has one thread, no children, and of connections only dead ends
(backup_files.c). Objects that are only useful with threads or children of their own are made anew here, with their own
arguments; what was given to them and not done is lost."""
HELPERS = (  # module, name, and the attributes with descriptors
	('multiprocessing.forkserver', '_forkserver', ('_forkserver_alive_fd',)),
	('multiprocessing.resource_tracker', '_resource_tracker', ('_fd',)),
	('loky.backend.resource_tracker', '_resource_tracker', ('_fd',)),
)
LOKY = 'loky.reusable_executor', 'loky.process_executor'  # joblib has a copy of it

forgotten = []  # without a reference, its destructors would speak to workers that are gone


def copies(name):
	"""The module NAME, and its copies in other packages. multiprocess (of pathos) is a copy of multiprocessing."""
	names = name, name.replace('multiprocessing', 'multiprocess')
	return [module for full, module in list(sys.modules.items()) if full in names or (full.endswith('.' + name) and '.' in name)]


def forget_helpers():
	"""Forgets the servers that multiprocessing and loky started for themselves: they have ended."""
	for helper, fds in [(getattr(module, name, None), fds) for full, name, fds in HELPERS for module in copies(full)]:
		if helper is None:
			continue
		try:
			for fd in fds:
				if getattr(helper, fd, None) is not None:
					os.close(getattr(helper, fd))
			helper.__init__()
		except Exception:
			pass  # the program changed something here
	for loky in copies(LOKY[0]):
		for place, name in (loky, '_executor'), (getattr(loky, '_executor_storage', None), 'executor'):  # until 3.5, since then
			if getattr(place, name, None) is not None:
				forgotten.append(getattr(place, name))
				setattr(place, name, None)


def broken(what):
	from concurrent.futures import BrokenExecutor
	return BrokenExecutor('%s ended when the process of this session crashed' % what)


def fail_future(future):
	"""Its worker has ended: result() would wait for ever. Callbacks are not called, because they may wait; those of
	asyncio do not, and a task may wait for them."""
	import threading
	from concurrent.futures import _base
	if future._state not in (_base.PENDING, _base.RUNNING):
		return
	future._condition = threading.Condition()  # the worker may have held it
	future._state, future._exception = _base.FINISHED, broken('The worker of this call')
	for callback in future._done_callbacks:
		if getattr(callback, '__module__', None) == 'asyncio.futures':
			callback(future)
	future._done_callbacks = []


def renew_thread_pool(pool):
	import threading
	if pool._shutdown:
		return
	pool._work_queue = type(pool._work_queue)()
	pool._idle_semaphore = threading.Semaphore(0)
	pool._threads = set()
	pool._shutdown_lock = threading.Lock()


def renew_process_pool(pool):
	from concurrent.futures import ProcessPoolExecutor
	if pool._shutdown_thread:
		return
	more = {}
	if hasattr(pool, '_max_tasks_per_child'):  # since 3.11
		more['max_tasks_per_child'] = pool._max_tasks_per_child
	ProcessPoolExecutor.__init__(pool, pool._max_workers, pool._mp_context, pool._initializer, pool._initargs, **more)


def renew_pool(pool):
	import threading
	pools = next(sys.modules[kind.__module__] for kind in type(pool).__mro__ if kind.__name__ == 'Pool')
	for job in list(pool._cache.values()):
		if hasattr(job, '_event'):
			job._success, job._value, job._event = False, broken('The worker of this call'), threading.Event()
			job._event.set()
		else:  # of imap()
			job._cond, job._length = threading.Condition(), job._index
			job._items.append((False, broken('The workers of this iterator')))
	if pool._state != pools.RUN:
		return
	pool._terminate.cancel()
	if isinstance(pool, pools.ThreadPool):
		pools.ThreadPool.__init__(pool, pool._processes, pool._initializer, pool._initargs)
	else:
		pools.Pool.__init__(pool, pool._processes, pool._initializer, pool._initargs, pool._maxtasksperchild, pool._ctx)


def renew_loky(pool):
	if pool._flags.shutdown or pool._executor_manager_thread is None:
		return
	forgotten.append(dict(pool.__dict__))
	base = next(kind for kind in type(pool).__mro__ if kind.__module__.endswith(LOKY[1]))
	initializer = pool._initializer, pool._initargs
	base.__init__(pool, pool._max_workers, pool._call_queue._reducers, pool._result_queue._reducers, pool._timeout, pool._context, env=pool._env)
	pool._initializer, pool._initargs = initializer


ENDING = '_SelectorSocketTransport', '_UnixReadPipeTransport', '_UnixWritePipeTransport'  # these close at the end of what they read


def notices_end(handle):
	"""Whether this callback of a loop does one thing, and no more, at the end of its connection. Others would be called
	again and again."""
	owner, name = getattr(handle._callback, '__self__', None), getattr(handle._callback, '__name__', '')
	return type(owner).__name__ in ENDING or name.startswith('_sock_')


def renew_waiting(found):
	"""This loop has a dead selector and a dead pair of sockets that would wake it. Connections and pipes are at their end:
	whoever waits for them is told so, because they are looked at again."""
	import selectors
	old, found._selector = found._selector, selectors.DefaultSelector()
	found._ssock.close()
	found._csock.close()
	found._internal_fds = 0
	found._make_self_pipe()
	for key in list(old.get_map().values()):
		try:
			if all(handle is None or notices_end(handle) for handle in key.data):
				found._selector.register(key.fileobj, key.events, key.data)
		except (OSError, KeyError, ValueError):  # a regular file, or a descriptor that is in use again
			pass
	old.close()


def end_child_of_loop(transport):
	"""A child of a loop has ended, and what would tell the loop is a thread or a descriptor that is gone."""
	if transport._returncode is None and transport._proc is not None:
		transport._process_exited(-9)


def renew_other_loop(found):
	"""A loop that the program has made. If a thread was executing it, that has ended: a call into the loop would wait for
	ever, and raises an exception if the loop is closed."""
	if found is loop or found.is_closed():
		return
	if found._thread_id is None:
		renew_waiting(found)
		return
	from asyncio import tasks
	for task in tasks.all_tasks(found):
		task._log_destroy_pending = False
	found._thread_id = None
	found.close()


def renew_condition(condition):
	"""Threads that waited have ended, and notify() would wake one of them in place of one that waits now. One that has
	ended may have held the lock. What the main thread holds it can only hold knowingly: an RLock."""
	condition._waiters.clear()
	owned = getattr(condition._lock, '_is_owned', None)
	if not (owned and owned()):
		condition._lock._at_fork_reinit()


def is_alone():
	"""Whether nothing in this process can wake its only thread: no other thread, no handler of a signal."""
	import signal
	silent = signal.default_int_handler, signal.SIG_DFL, signal.SIG_IGN, None
	return len(os.listdir('/proc/self/task')) == 1 and all(signal.getsignal(number) in silent for number in signal.valid_signals())


def refuse_endless_waits():
	"""What a thread was to answer, such as join() of a queue, would wait for it until the time limit of the run."""
	threading = sys.modules.get('threading')
	if threading is None or hasattr(threading.Condition.wait, '__wrapped__'):
		return
	wait = threading.Condition.wait

	def wait_if_others(self, timeout=None):
		if timeout is None and is_alone():
			raise RuntimeError('this would wait for ever: no other thread is there. Those that the session had before its '
			                   'process ended are gone; start them again.')
		return wait(self, timeout)
	wait_if_others.__wrapped__ = wait
	threading.Condition.wait = wait_if_others


def renew_barrier(barrier):
	"""Threads that waited at it, or were about to leave, have ended. Without this the next one to come would wait for those
	to leave, for ever, or would be let through in their place. Its Condition is renewed by itself."""
	barrier._count, barrier._state = 0, barrier._state if barrier.broken else 0


def inodes_of_files():
	"""The device and inode of each file that is open here."""
	found = set()
	for number in os.listdir('/proc/self/fd'):
		try:
			found.add(os.fstat(int(number))[1:3])
		except OSError:  # the one that listed them
			pass
	return found


def close_database(connection):
	"""A connection to a file is dead, but SQLite counts its locks as those of this process. So no other connection could
	write, or would see that a transaction of the dead process has to be rolled back. A database in memory goes on, and
	one that was empty: its file was opened anew. Why this leaves the journal of that transaction alone: backup_files.c."""
	import gc
	from sqlite3 import Connection, Cursor, ProgrammingError
	try:
		cursor = Connection.cursor(connection)
		cursor.row_factory = None
		files = {os.fsdecode(name): os.fsdecode(file) for _, name, file in cursor.execute('PRAGMA database_list') if file}
		if 'main' not in files:
			for name in files:
				cursor.execute('DETACH "%s"' % name.replace('"', '""'))
			return
		if inodes_of_files().issuperset(os.stat(file)[1:3] for file in files.values()):
			return
		for own in [found for found in gc.get_referrers(connection) if isinstance(found, Cursor)]:
			Cursor.close(own)  # SQLite closes a file after the last statement
	except (ProgrammingError, OSError):  # it belongs to a thread that has ended and does not tell its files, or a file is removed
		pass
	Connection.__init__(connection, ':memory:')  # closes the file, whatever thread has opened it
	Connection.close(connection)


def close_async_database(connection):
	"""aiosqlite has a thread for each connection: a call would wait for it for ever. So the connection says that it is
	closed, and a pool of SQLAlchemy makes another one."""
	connection._running, connection._connection = False, None


def bury(child):
	"""The kernel does not tell any more how a child ended that was not ours; Popen would take that for 0."""
	if child.returncode is None and getattr(child, 'pid', None) is not None:
		child.returncode = -9


def renew_queue(queue):
	"""Its pipe and its thread are gone, and a worker that has ended may have held its lock. What was in it is lost."""
	import multiprocessing
	if queue._reader.closed or type(queue).__name__ not in ('Queue', 'JoinableQueue', 'SimpleQueue'):
		return
	context = multiprocessing.get_context('fork' if getattr(queue._rlock, '_is_fork_ctx', True) else 'spawn')
	type(queue).__init__(queue, *([queue._maxsize] if hasattr(queue, '_maxsize') else []), ctx=context)


def adopt_child(process):
	"""So that one can ask this process object, whose child bury() knows to be dead, and can start it if that was to come."""
	if process._parent_pid is not None:
		process._parent_pid = os.getpid()


def let_shut_down(server):
	"""serve_forever() of a thread that has ended says nothing any more, and shutdown() would wait for it."""
	server._BaseServer__is_shut_down.set()


RENEWED = (
	('concurrent.futures.thread', 'ThreadPoolExecutor', renew_thread_pool),
	('concurrent.futures.process', 'ProcessPoolExecutor', renew_process_pool),
	('multiprocessing.pool', 'Pool', renew_pool),
	('concurrent.futures._base', 'Future', fail_future),
	('asyncio.base_events', 'BaseEventLoop', renew_other_loop),
	('asyncio.base_events', 'Server', lambda server: server.close()),
	('asyncio.base_subprocess', 'BaseSubprocessTransport', end_child_of_loop),
	('asyncio.selector_events', '_SelectorDatagramTransport', lambda transport: transport.abort()),
	('threading', 'Condition', renew_condition),
	('threading', 'Barrier', renew_barrier),
	('sqlite3', 'Connection', close_database),
	('aiosqlite.core', 'Connection', close_async_database),
	('multiprocessing.queues', 'Queue', renew_queue),
	('multiprocessing.queues', 'SimpleQueue', renew_queue),
	('socketserver', 'BaseServer', let_shut_down),
	('multiprocessing.process', 'BaseProcess', adopt_child),
	('subprocess', 'Popen', bury),
	('multiprocessing.popen_fork', 'Popen', bury),
)


def is_one_of(found, kinds):
	try:
		return isinstance(found, kinds)
	except Exception:  # a class of the program
		return False


def renew_objects():
	import gc
	renews = {getattr(module, name): renew for full, name, renew in RENEWED for module in copies(full) if hasattr(module, name)}
	renews.update((loky.ProcessPoolExecutor, renew_loky) for loky in copies(LOKY[1]))
	kinds = tuple(renews)
	# Not those of the image: they are frozen. Not in one loop: the list of all keeps what close_database() has to free.
	for found in [found for found in gc.get_objects() if is_one_of(found, kinds)]:
		for kind in kinds:
			try:
				if isinstance(found, kind):
					renews[kind](found)
			except Exception:
				pass  # a class of the program, or an object that is not complete yet


SERVICES = (  # module, class and method: threads that do nothing but execute this can begin again
	('logging.handlers', 'QueueListener', '_monitor'),
	('socketserver', 'BaseServer', 'serve_forever'),
	('sched', 'scheduler', 'run'),
)
left_threads = []  # those of Python when the last cell ended: threading forgets them in a fork


def server_of(thread):
	found = getattr(getattr(thread, '_target', None), '__self__', None)
	return found if hasattr(found, 'server_bind') else None


def can_listen_again(server):
	"""Not with a protocol of its own on the socket, such as TLS, or with a file as address. And where a port may not be used
	again at once, the connections that the dead process had still have it."""
	import socket
	return type(server.socket) is socket.socket and server.address_family in (socket.AF_INET, socket.AF_INET6) \
		and (server.allow_reuse_address or server.socket_type == socket.SOCK_DGRAM)


def begins_again(thread):
	"""Whether this thread is one of the standard library's own that renew_threads() can start."""
	modules = sys.modules
	if isinstance(thread, modules['threading'].Timer):
		return type(thread).run is modules['threading'].Timer.run
	does = getattr(getattr(thread, '_target', None), '__func__', None)
	if does is None or all(does is not getattr(getattr(modules.get(module), kind, None), method, None) for module, kind, method in SERVICES):
		return False
	server = server_of(thread)
	return server is None or can_listen_again(server)


def listen_again(server):
	"""The socket of this server is a dead end. The process that had its address has ended."""
	import socket
	server.socket.close()
	server.socket = socket.socket(server.address_family, server.socket_type)
	server.server_bind()
	server.server_activate()


def renew_thread(thread):
	import threading
	more = {}
	if isinstance(thread, threading.Timer):
		if thread.finished.is_set():
			return
	else:
		more = {'target': thread._target, 'args': thread._args, 'kwargs': thread._kwargs}
	if server_of(thread) is not None:
		listen_again(server_of(thread))
	threading.Thread.__init__(thread, name=thread._name, daemon=thread._daemonic, **more)
	thread.start()


def renew_threads():
	for thread in left_threads:
		try:
			if not thread.is_alive() and begins_again(thread):
				renew_thread(thread)
		except Exception:
			pass  # the address is in use, or the program changed something here
	left_threads.clear()


def renew_loop():
	"""The loop of the session."""
	global loop_pid
	if loop is None or loop.is_closed():
		return
	renew_waiting(loop)
	loop_pid = os.getpid()


def try_cell():
	"""If no cell can begin here, because the program has changed what that needs, this raises, and the session is lost.
	Else every later run would fail in our code, and its backup would be the same again."""
	global cells
	was = cells
	try:
		mend_streams()
		exec(cell(b'None', True)[0], {'__builtins__': builtins})
	finally:
		cells = was


def take_over():
	"""In a backup that goes on as it is. Returns what told() returns."""
	if 'threading' in sys.modules:
		sys.modules['threading'].main_thread()._set_native_id()
	for step in forget_helpers, renew_loop, renew_objects, renew_threads, refuse_endless_waits:
		try:
			step()
		except Exception:
			pass  # the program changed something here
	if random_state is not None:
		sys.modules['random'].setstate(random_state)
	try_cell()
	return 0, 0, b''
