// SPDX-License-Identifier: Apache-2.0
// Which modules of which test suites run in a sandbox.

export interface Module {
	name: string;
	how: 'unittest' | 'pytest';
	/** Part of the run that is bounded to a minute and a half (CI). */
	quick: boolean;
}

export interface Pack {
	/** Files of `packs` that are unpacked together, into one sandbox. */
	files: string[];
	modules: Module[];
}

function std(quick: boolean, ...names: string[]): Module[] {
	return names.map((n) => ({ name: `test.${n}`, how: 'unittest', quick }));
}

function pytest(quick: boolean, ...names: string[]): Module[] {
	return names.map((name) => ({ name, how: 'pytest', quick }));
}

export const packs: Pack[] = [
	{
		files: ['std'],
		modules: [
			...std(true, 'test_fork1', 'test_mmap', 'test_pathlib', 'test_posix', 'test_select', 'test_poll', 'test_epoll', 'test_pty', 'test_openpty', 'test_tempfile', 'test_shutil',
				'test_sqlite3', 'test_fcntl', 'test_ioctl', 'test_resource', 'test_wait3', 'test_wait4', 'test_termios', 'test_tty', 'test_pwd', 'test_grp', 'test_glob', 'test_file',
				'test_fileio', 'test_largefile', 'test_gzip', 'test_bz2', 'test_uuid', 'test_locale', 'test_posixpath', 'test_genericpath', 'test_dbm_sqlite3'),
			...std(false, 'test_os', 'test_subprocess', 'test_signal', 'test_threadsignals', 'test_threading', 'test_socket', 'test_asyncio', 'test_zipfile', 'test_tarfile', 'test_selectors',
				'test_time', 'test_httpservers', 'test_httplib', 'test_ctypes', 'test_queue', 'test_faulthandler',
				'test_venv', 'test_lzma', 'test_zstd', 'test_hashlib', 'test_io', 'test_getpass', 'test_platform',
				'test_multiprocessing_main_handling',
				...['fork', 'forkserver', 'spawn'].flatMap((m) => ['processes', 'threads', 'manager', 'misc'].map((t) => `test_multiprocessing_${m}.test_${t}`)),
				'test_concurrent_futures.test_as_completed', 'test_concurrent_futures.test_deadlock'),
		],
	},
	{
		files: ['pytest', 'numpy'],
		modules: [
			...pytest(true, 'numpy._core.tests.test_memmap', 'numpy._core.tests.test_errstate', 'numpy.lib.tests.test_format'),
			...pytest(false, 'numpy._core.tests.test_umath', 'numpy._core.tests.test_multithreading', 'numpy.fft.tests.test_pocketfft',
				'numpy.linalg.tests.test_linalg', 'numpy.lib.tests.test_io', 'numpy._core.tests.test_mem_overlap', 'numpy.random.tests.test_random'),
		],
	},
	{
		files: ['pytest', 'zones', 'pandas'],
		modules: [
			...pytest(true, 'pandas.tests.groupby.test_missing'),
			...pytest(false, 'pandas.tests.io.test_pickle', 'pandas.tests.io.test_common', 'pandas.tests.io.test_sql',
				'pandas.tests.io.formats.test_to_csv', 'pandas.tests.io.parser.test_multi_thread', 'pandas.tests.groupby.test_groupby', 'pandas.tests.reshape.merge.test_merge',
				'pandas.tests.io.excel.test_openpyxl', 'pandas.tests.plotting.test_common'),
		],
	},
	{
		files: ['pytest', 'zones', 'pyarrow'],
		modules: [
			...pytest(true, 'pyarrow.tests.test_memory', 'pyarrow.tests.test_misc'),
			...pytest(false, 'pyarrow.tests.test_io', 'pyarrow.tests.test_fs', 'pyarrow.tests.test_csv', 'pyarrow.tests.test_ipc', 'pyarrow.tests.parquet.test_basic',
				'pyarrow.tests.test_feather'),
		],
	},
	{
		files: ['pytest', 'matplotlib'],
		modules: [
			...pytest(true, 'matplotlib.tests.test_cbook'),
			...pytest(false, 'matplotlib.tests.test_font_manager', 'matplotlib.tests.test_pickle', 'matplotlib.tests.test_rcparams', 'matplotlib.tests.test_ticker',
				'matplotlib.tests.test_basic', 'matplotlib.tests.test_matplotlib'),
		],
	},
];
