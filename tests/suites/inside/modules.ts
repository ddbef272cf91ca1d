// SPDX-License-Identifier: Apache-2.0
// Which modules of which test suites run in a sandbox.

export interface Module {
	/** A module, or a class of tests in one. */
	name: string;
	/** `venv`: `unittest` in an interpreter whose children and sub-interpreters find the tests, too. */
	how: 'unittest' | 'pytest' | 'venv';
	/** Part of the run that is bounded to a minute and a half (CI). */
	quick: boolean;
}

/** Those that run: the quick ones, or all, where a class is left to its whole module. */
export function chosen(all: Module[], quick: boolean, only: RegExp): Module[] {
	const named = all.filter((m) => only.test(m.name));
	return named.filter((m) => quick ? m.quick : !named.some((o) => m.name.startsWith(`${o.name}.`)));
}

export interface Pack {
	/** Files of `packs` that are unpacked together, into one sandbox; `own`: the folder of that name beside this file. */
	files: string[];
	modules: Module[];
}

function words(text: string): string[] {
	return text.split(/\s+/).filter(Boolean);
}

/** What starts isolated interpreters or sub-interpreters that import the tests. */
const inVenv = words('init interpreter_pool shutdown').map((t) => `test_concurrent_futures.test_${t}`).concat('test_interpreters', 'test_crossinterp', 'test_import');

function std(quick: boolean, text: string): Module[] {
	return words(text).map((n) => ({ name: `test.${n}`, how: inVenv.includes(n) ? 'venv' : 'unittest', quick }));
}

function pytest(quick: boolean, text: string): Module[] {
	return words(text).map((name) => ({ name, how: 'pytest', quick }));
}

const stdQuick = `
	test_mmap test_pathlib test_posix test_select test_poll test_epoll test_pty test_openpty test_tempfile test_shutil test_sqlite3 test_fcntl test_ioctl test_resource
	test_termios test_tty test_pwd test_grp test_glob test_file test_fileio test_largefile test_uuid test_locale test_posixpath test_dbm_sqlite3
	test_thread test_threading_local test_bufio test_fileutils test_filecmp test_unicode_file
	test_unicode_file_functions test_script_helper test_atexit test_zipapp test_pkgutil test_dbm
	test_syslog test_socketserver test_urllib2_localnet test_wsgiref
	test_getpass test_platform test_lzma test_hashlib test_httplib test_smtplib test_xmlrpc test_timeout test_perfmaps
	test_subprocess.POSIXProcessTestCase test_subprocess.ContextManagerTests
	test_asyncio.test_unix_events test_asyncio.test_server test_asyncio.test_streams
	test_socket.BasicTCPTest test_socket.BasicUDPTest test_socket.BasicSocketPairTest test_socket.NonBlockingTCPTests test_socket.SendmsgTCPTest test_socket.TestUnixDomain
	test_socket.SendfileUsingSendTest test_ssl.SimpleBackgroundTests test_signal.PosixTests test_signal.WakeupSignalTests test_threading.LockTests test_threading.ThreadJoinOnShutdown
	test_concurrent_futures.test_thread_pool
	test_multiprocessing_fork.test_processes.WithProcessesTestSharedMemory test_multiprocessing_spawn.test_processes.WithProcessesTestConnection
	test_multiprocessing_forkserver.test_processes.WithProcessesTestQueue`;

const stdLong = `
	test_multiprocessing_main_handling
	${['fork', 'forkserver', 'spawn'].flatMap((m) => ['processes', 'threads', 'manager', 'misc'].map((t) => `test_multiprocessing_${m}.test_${t}`)).join(' ')}
	${words('as_completed deadlock future init interpreter_pool process_pool shutdown wait').map((t) => `test_concurrent_futures.test_${t}`).join(' ')}
	test_fork1 test_wait3 test_wait4 test_gzip test_bz2 test_zstd test_zlib test_io test_os test_subprocess test_signal test_threadsignals test_threading test_queue test_socket test_ssl
	test_asyncio test_zipfile test_tarfile test_selectors test_time test_httpservers test_ftplib test_poplib test_imaplib test_ctypes test_faulthandler test_eintr test_file_eintr
	test_cmd_line test_logging test_mailbox test_venv test_compileall test_unittest test_external_inspection test_interpreters test_crossinterp test_sys test_import test_site test_runpy
	test_zipimport test_c_locale_coercion test_utf8_mode test_docxmlrpc test_sysconfig
	test_errno test_stat test_popen test_timeit test_ipaddress test_tomllib test_secrets test_hmac test_sax test_minidom test_contextlib test_linecache test_memoryio test_csv
	test_array test_zoneinfo test_genericpath test_dbm_dumb test_shelve test_fileinput test_urllib test_sched`;

export const packs: Pack[] = [
	{ files: ['own'], modules: words('own.test_pip own.test_data').map((name) => ({ name, how: 'unittest', quick: true })) },
	{
		files: ['pytest', 'numpy'],
		modules: [
			...pytest(true, 'numpy._core.tests.test_memmap numpy._core.tests.test_errstate'),
			...pytest(false, `numpy.lib.tests.test_format numpy._core.tests.test_umath numpy._core.tests.test_multithreading numpy.fft.tests.test_pocketfft numpy.linalg.tests.test_linalg numpy.lib.tests.test_io
				numpy._core.tests.test_mem_overlap numpy.random.tests.test_random`),
		],
	},
	{
		files: ['pytest', 'scipy'],
		modules: [
			...pytest(true, 'scipy.io.tests.test_netcdf scipy.io.tests.test_wavfile'),
			...pytest(false, 'scipy.fft.tests.test_multithreading scipy._lib.tests.test_ccallback scipy.linalg.tests.test_blas scipy.linalg.tests.test_decomp_cholesky scipy.spatial.tests.test_hausdorff'),
		],
	},
	{
		files: ['pytest', 'zones', 'pandas'],
		modules: [
			...pytest(true, 'pandas.tests.groupby.test_missing'),
			...pytest(false, `pandas.tests.io.test_pickle pandas.tests.io.test_common pandas.tests.io.test_sql pandas.tests.io.formats.test_to_csv pandas.tests.io.parser.test_multi_thread
				pandas.tests.groupby.test_groupby pandas.tests.reshape.merge.test_merge pandas.tests.io.excel.test_openpyxl pandas.tests.plotting.test_common`),
		],
	},
	{
		files: ['pytest', 'zones', 'pyarrow'],
		modules: [
			...pytest(true, 'pyarrow.tests.test_misc'),
			...pytest(false, `pyarrow.tests.test_memory pyarrow.tests.test_io pyarrow.tests.test_fs pyarrow.tests.test_csv pyarrow.tests.test_ipc pyarrow.tests.parquet.test_basic pyarrow.tests.test_feather`),
		],
	},
	{
		files: ['pytest', 'matplotlib'],
		modules: [
			...pytest(true, 'matplotlib.tests.test_cbook'),
			...pytest(false, `matplotlib.tests.test_font_manager matplotlib.tests.test_pickle matplotlib.tests.test_rcparams matplotlib.tests.test_ticker matplotlib.tests.test_basic
				matplotlib.tests.test_matplotlib`),
		],
	},
	{ files: ['std'], modules: [...std(true, stdQuick), ...std(false, stdLong)] },
];
