// SPDX-License-Identifier: Apache-2.0
// The tests that cannot pass in a sandbox, and the reasons for which tests may leave themselves out there. A listed test that passes fails
// the run, and so does a test that fails or skips itself for a reason that is not here.

import type { Mode } from '../../lib/env.ts';

export interface Where {
	mode: Mode;
	warm: boolean;
}

export interface Known {
	/** Why it cannot pass. */
	why: string;
	tests: string[];
	/** Only there; everywhere when absent. */
	when?: (w: Where) => boolean;
	/** Which of two things a run meets is nobody's choice, and they pass with one of them. */
	mayPass?: boolean;
}

/** Tests of Python that assert how long something takes. One that fails is skipped with that reason: it says nothing of a busy machine. */
export const timed = ['test.test_timeout.', 'test.test_time.', 'test.test_sched.', 'test.test_timeit.'];

export const known: Known[] = [
	{
		why: 'only one uid and one gid are mapped, so any other gives EINVAL where the test expects EPERM',
		tests: [
			'test.test_os.ChownFileTests.test_chown_without_permission',
			'test.test_subprocess.POSIXProcessTestCase.test_group',
			'test.test_subprocess.POSIXProcessTestCase.test_user',
		],
	},
	{
		why: 'network interfaces are listed through netlink sockets, which are not allowed: most root bugs of recent years were reached through them',
		tests: [
			'test.test_socket.GeneralModuleTests.testInterfaceNameIndex',
			'test.test_socket.GeneralModuleTests.testInvalidInterfaceIndexToName',
			'test.test_socket.GeneralModuleTests.test_getaddrinfo_ipv6_scopeid_symbolic',
			'test.test_socket.GeneralModuleTests.test_getnameinfo_ipv6_scopeid_symbolic',
		],
	},
	{
		why: 'splice(2) and sendfile(2) are not allowed, and a library does the work of the second one. These tests need the call itself',
		tests: [
			'test.test_asyncio.test_sendfile.EPollEventLoopTests.test_sendfile_prevents_bare_write',
			'test.test_asyncio.test_sendfile.PollEventLoopTests.test_sendfile_prevents_bare_write',
			'test.test_asyncio.test_sendfile.SelectEventLoopTests.test_sendfile_prevents_bare_write',
		],
	},
	{
		why: 'urgent data of sockets (MSG_OOB) is not allowed, because a use-after-free of the kernel was reached through it',
		tests: ['test.test_ftplib.TestFTPClass.test_abort'],
	},
	{
		why: 'no process may call process_vm_readv(2), which reads the memory of a process, not even on itself',
		tests: [
			...['test_long_task_name_is_truncated', 'test_self_trace', 'test_self_trace_after_ctypes_import'].map((t) => `test.test_external_inspection.TestGetStackTrace.${t}`),
			'test.test_sys.TestRemoteExec.test_remote_exec_with_self_process',
		],
	},
	{
		why: 'the image has no headers of Arrow',
		tests: ['pyarrow.tests.test_misc::test_get_include'],
	},
	{
		why: 'the tests lie outside of the package, and the isolated interpreters that they start do not find them there',
		tests: [
			'test.test_multiprocessing_fork.test_misc.TestFlags.test_flags',
			'test.test_multiprocessing_forkserver.test_misc.TestFlags.test_flags',
			'test.test_multiprocessing_forkserver.test_misc.TestStartMethod.test_preload_resources',
			'test.test_multiprocessing_spawn.test_misc.TestFlags.test_flags',
			'test.test_multiprocessing_spawn.test_misc.TestStartMethod.test_preload_resources',
			'test.test_cmd_line.CmdLineTest.test_relativedir_bug46421',
			'test.test_site._pthFileTests.test_underpth_nosite_file',
			'test.test_unittest.test_program.TestCommandLineArgs.testSelectedTestNamesFunctionalTest',
		],
	},
	{
		why: 'the tests lie outside of the package, and a warm interpreter has imported the package from the image already (in a cold run they pass)',
		mayPass: true,
		tests: [
			'matplotlib.tests.test_cbook::test_warn_external',
			...['bz2-utf-16', 'bz2-utf-32', 'xz-utf-16', 'xz-utf-32'].map((p) => `pandas.tests.io.test_common::TestMMapWrapper::test_warning_missing_utf_bom[${p}]`),
		],
		when: (w) => w.warm,
	},
	{
		why: 'runs write no compiled files beside modules in the workspace and in /tmp, so that a module that was edited within the same second is read anew',
		tests: [
			...['NoSourceEpoch', 'WithSourceEpoch'].map((t) => `test.test_compileall.HardlinkDedupTests${t}.test_import`),
			...['test_cached_mode_issue_2051', 'test_cached_readonly', 'test_creation_mode', 'test_pyc_always_writable'].map((t) => `test.test_import.FilePermissionTests.${t}`),
			...['test_file_to_source', 'test_timestamp_overflow'].map((t) => `test.test_import.ImportTests.${t}`),
			...['explicit_relative_import', 'main_relative_import', ...['module', 'module_alter_sys', 'module_in_namespace_package', 'namespace_package', 'namespace_package_in_namespace_package', 'package', 'package_alter_sys', 'package_in_namespace_package'].map((t) => `run_${t}`)].map((t) => `test.test_runpy.RunModuleTestCase.test_${t}`),
			...['test___cached___legacy_pyc', 'test_import_pyc_path', 'test_missing_source', 'test_missing_source_legacy', 'test_unwritable_directory'].map((t) => `test.test_import.PycacheTests.${t}`),
		],
	},
	{
		why: 'the environment of runs says how many processors the sandbox has and that text is UTF-8, where the test assumes that nothing does',
		mayPass: true, // the first one on a machine with one processor
		tests: ['test.test_cmd_line.CmdLineTest.test_cpu_count_default', 'test.test_cmd_line.CmdLineTest.test_displayhook_unencodable', 'test.test_os.CPUCountTests.test_process_cpu_count_affinity'],
	},
	{
		why: 'workers of multiprocessing are forked unless the program chooses otherwise, because what cells have defined is there then',
		tests: ['fork', 'forkserver', 'spawn'].map((t) => `test.test_multiprocessing_${t}.test_misc.TestStartMethod.test_get_all_start_methods`),
	},
	{
		why: 'a process can only change its own priority, and names itself with 0',
		mayPass: true, // where the test has no room above
		tests: ['test.test_os.ProgramPriorityTests.test_set_get_priority'],
	},
	{
		why: 'a warm interpreter has imported it before it knows how many processors the sandbox has',
		mayPass: true, // where the machine has as many
		tests: ['test_invalid_workers', 'test_set_get_workers', 'test_set_workers_invalid'].map((t) => `scipy.fft.tests.test_multithreading::${t}`),
		when: (w) => w.warm,
	},
	{
		why: 'types that a warm interpreter has imported are immortal, and the garbage collector does not look at them',
		tests: ['test.test_socket.GeneralModuleTests.test_socket_type', 'test.test_zoneinfo.test_zoneinfo.ExtensionBuiltTest.test_gc_tracked'],
		when: (w) => w.warm,
	},
	{
		why: 'Arrow reads with one thread where there is one processor, and then names rows in errors',
		mayPass: true,
		tests: ['test_invalid_row_handler[builtin_pickle]', 'test_invalid_row_handler[cloudpickle]', 'test_row_number_offset_in_errors'].map((t) => `pyarrow.tests.test_csv::TestThreadedStreamingCSVRead::${t}`),
	},
	{
		why: 'where there is no screen, matplotlib draws into files also when the program asks for a window; what a font lacks comes from others, without a warning',
		tests: ['matplotlib.tests.test_rcparams::test_backend_fallback_headless_invalid_backend', 'matplotlib.tests.test_ticker::TestScalarFormatter::test_mathtext_ticks'],
	},
	{
		why: 'the test writes a file of gigabytes, which is more than the limits of a sandbox permit',
		tests: ['numpy.lib.tests.test_io::TestSavezLoad::test_big_arrays'],
	},
	{
		why: 'the list of fonts of the image has stand-ins for names that other systems have',
		tests: ['matplotlib.tests.test_font_manager::test_get_font_names'],
	},
];

/** Reasons for leaving oneself out. */
export interface Skip {
	why: string;
	reasons: RegExp[];
	/** Only of these, and then the reason may be the error of a system call; of any test when absent. */
	tests?: RegExp;
}

export const skips: Skip[] = [
	{
		why: 'another system than Linux, another machine than this kind',
		reasons: [
			/windows|win32|wine|macos|mac os|osx|darwin|bsd|solaris|android|emscripten|wasi|ios\b|cygwin|aix|hp-?ux|altsep/i,
			/NT specific|NTFS|msvcrt|_winapi|WINFUNCTYPE|oledll|path separator/,
			/kqueue|devpoll|lchmod|lchflags|chflags|O_EXLOCK|O_SHLOCK|RWF_SYNC|F_GETPATH|Can't set symlink permissions|os\.spawnv$|headers and trailers|does not use a file descriptor|requires os\.link to be missing/i,
			/dir_fd is supported|(os\.\w+\(\) is present|parser is supported|set\w+\(\) available on platform)$|requires unix$|^(arp|lanscan|netstat) is not used|32-bit (builds?|address)|POSIX-flavoured/,
		],
	},
	{
		why: 'another build of Python',
		reasons: [
			/gettotalrefcount|free-?threading|free threading|GIL|debug build|DEBUG build|--with-|uuid_generate_time_safe|uuid\._generate_time_safe|MAC address|Py_DEBUG|_testinternalcapi|C implementation/,
			/text mode not available|a bug in glibc|_recursion_count|shared library cannot be loaded|warn_default_encoding|no SQLite extension|deserialize|not compiled|need sys\.getobjects|Py_STATS|static Python build|build-shared\/libpython|zlib is a builtin module|HAVE_PERF_TRAMPOLINE|Python default ciphers|Berkeley DB doesn't/i,
		],
	},
	{
		why: 'programs, locales and modules that the image does not have',
		reasons: [
			/Need the (un)?zip command|requires (ifconfig|ip)$|working strace|[Ll]ocale|Turkish|[Cc]ould not import|not installed|Unable to import|No module named|not find|optional dependency|fontconfig|[Ff]ont .*(to test|may be)/,
			/\bNOT enabled$|Cannot locate lib\w+|with bundled aws-sdk|not linked in|has no inspection system|str connection|headless/,
			/compiler|(gcc|cc|csh|gdb|bash|fish|fc-list|lib_\w+)\b.*(missing|required|not available|not found)|requires .*(gcc|cc|bash|gdb|fc-list)/,
		],
	},
	{
		why: 'resources that a quick run leaves out, and sizes beyond the limits of a sandbox',
		reasons: [/resource '?\w+'? is not enabled|'\w+' resource not enabled|not enough memory|free disk space|high memory|lead to OOM|generates files >\d+ bytes|single_cpu|slow|[Nn]eeds? .*memory|GB memory required, but /],
	},
	{
		why: 'socket families and protocols of the kernel that sandboxes do not have',
		reasons: [/((Hyper-V|QIPCRTR|RDS|UDPLITE|VSOCK|Bluetooth) sockets|SocketCan|CAN ISOTP|CAN J1939) required|AF_ALG required|TIPC module|[Nn]umeric scope id/],
	},
	{
		why: 'what programs print leaves them at once',
		reasons: [/stdio buffering is disabled/],
	},
	{
		why: 'a run has the processors that its CPU limit is worth, which may be one',
		reasons: [/^sched_getaffinity\(\) returns less than 2 CPUs/],
	},
	{
		why: 'packages of the image have a .pth file',
		reasons: [/^found \d+ \.pth files in: /],
	},
	{
		why: 'sockets are TCP, UDP and local ones: no SCTP',
		reasons: [/^can't create socket\(AF_INET, SOCK_STREAM, IPPROTO_SCTP\): \[Errno 1\] Operation not permitted$/],
		tests: /^test\.test_socket\.\w+SCTPStreamTest\./,
	},
	{
		why: 'splice(2) is not there',
		reasons: [/^\[Errno 38\] Function not implemented$/],
		tests: /^test\.test_os\.FileTests\.test_splice(_offset_(in|out))?$/,
	},
	{
		why: 'nobody sets the clock (clock_settime)',
		reasons: [/^\[Errno 1\] Operation not permitted$/],
		tests: /^test\.test_time\.TimeTestCase\.test_monotonic_settime$/,
	},
	{
		why: 'no terminal, no rights, no network, one group: what a sandbox does not have by design',
		reasons: [/not enough privileges|Insufficient permissions|CAP_|(must be|is not) a TTY|not on tty|\/dev\/tty|\broot\b|Cannot block permissions|superuser|privilege|network|at least 2 groups|terminal size|stty invocation/i],
	},
	{
		why: 'the file system of a workspace without root is a tmpfs of a user namespace: no user attributes before Linux 6.6',
		reasons: [/extended attribute/],
	},
	{
		why: 'the test is meant for another place: another start method, another class, another platform',
		reasons: [
			/only run in|specific( test)?[.]?$|redundant|start_method|start method|only makes sense with|not appropriate for|os\.link to be missing|SIGINT to not be ignored|different from UTC|: bpo-\d|needs local target|Skip due to platform|Maybe test trigger|[Tt]est disabled for now|already loaded|is tested by|SOURCE_DATE_EPOCH is set|at current nice level of 19$|^test not implemented$|^broken \(see BPO/,
			/only relevant for|not supported|not applicable|does not support|unsupported|requires? .*version|known failure|abstract|see gh-|generic signatures only|not available|is not (used|needed|relevant)|trackfd|^$/i,
		],
	},
];
