/* SPDX-License-Identifier: Apache-2.0 */
/* The bugs that docs/kernel-bugs.md calls reachable, and which releases of the upstream kernel have
 * them; kernel-bugs.test.ts compares the two files. Read in November 2026.
 *
 *   B(cve, machine, since, fixed, branches...)
 *     machine  what uname -m must say; NULL = every one
 *     since    first mainline release with the bug, 0 = older than the table (5.10)
 *     fixed    first mainline release without it, 0 = unknown
 *   ON(since, fixed)  a stable branch that differs: `since` is the release that brought the bug by
 *     a backport, 0 = as mainline; `fixed` is the first release of the branch without it, or
 *     UNKNOWN (no fixed release of that branch could be verified) or NEVER (the branch ended with the
 *     bug); with these two `since` must not be 0.
 *   A branch between since and fixed without an ON ended before it was fixed.
 *
 * Where the numbers come from:
 *   2024 and later  the records of the kernel's CVE team (security/vulns, and the same in the CVE
 *                   list), compared with the changelogs of Debian's packages 5.10.262, 6.1.192,
 *                   6.12.117 and 7.2.13, which name the upstream release of each patch. From the
 *                   changelogs alone: 6.1.178 of CVE-2026-46242, 6.1.189 and 6.12.111 of
 *                   CVE-2026-80521; its 6.18.53 from the review of that release on the stable list
 *   before that     linux_kernel_cves (5.10, 5.13, 5.15) and the same changelogs; 5.15.65 also from
 *                   the review of that release on the stable list; 6.4.1 from the public write-up
 *                   of CVE-2023-3269 */
B("CVE-2020-29661", NULL, 0, V(5, 10, 0))
B("CVE-2021-0920", NULL, 0, V(5, 14, 0), ON(0, V(5, 10, 55)), ON(0, V(5, 13, 7)))
B("CVE-2021-1048", NULL, 0, V(5, 9, 0))
B("CVE-2022-42703", NULL, 0, V(6, 0, 0), ON(0, V(5, 10, 141)), ON(0, V(5, 15, 65)),
  ON(0, V(5, 19, 7)))
B("CVE-2023-3269", NULL, V(6, 1, 0), V(6, 5, 0), ON(0, V(6, 1, 37)), ON(0, V(6, 3, 11)),
  ON(0, V(6, 4, 1)))
B("CVE-2024-26923", NULL, 0, V(6, 9, 0), ON(0, V(5, 10, 216)), ON(0, V(5, 15, 156)),
  ON(0, V(6, 1, 87)), ON(0, V(6, 6, 28)), ON(0, V(6, 8, 7)))
B("CVE-2024-36971", NULL, 0, V(6, 10, 0), ON(0, V(5, 10, 219)), ON(0, V(5, 15, 161)),
  ON(0, V(6, 1, 94)), ON(0, V(6, 6, 34)), ON(0, V(6, 9, 4)))
B("CVE-2024-50066", NULL, V(6, 6, 0), V(6, 12, 0), ON(0, V(6, 6, 58)), ON(0, V(6, 11, 5)))
B("CVE-2025-37964", "x86_64", V(6, 14, 0), V(6, 15, 0), ON(V(5, 15, 179), V(5, 15, 183)),
  ON(V(6, 1, 129), V(6, 1, 139)), ON(V(6, 6, 79), V(6, 6, 91)), ON(V(6, 12, 16), V(6, 12, 29)),
  ON(V(6, 13, 4), NEVER), ON(0, V(6, 14, 7)))
B("CVE-2025-40214", NULL, V(6, 10, 0), V(6, 18, 0), ON(V(6, 1, 141), V(6, 1, 159)),
  ON(V(6, 6, 93), V(6, 6, 117)), ON(0, V(6, 12, 59)), ON(0, V(6, 17, 9)))
B("CVE-2026-23394", NULL, V(6, 10, 0), V(7, 0, 0), ON(V(6, 1, 141), V(6, 1, 183)),
  ON(V(6, 6, 93), V(6, 6, 142)), ON(0, V(6, 12, 92)), ON(0, V(6, 18, 23)), ON(0, V(6, 19, 10)))
/* 5.15.209 and 6.1.175 got the commit that introduced it; 6.1.175 also got the fix. */
B("CVE-2026-43074", NULL, V(6, 4, 0), V(7, 0, 0), ON(V(5, 15, 209), UNKNOWN),
  ON(0, V(6, 6, 136)), ON(0, V(6, 12, 83)), ON(0, V(6, 18, 24)), ON(0, V(6, 19, 14)))
B("CVE-2026-46242", NULL, V(6, 4, 0), V(7, 1, 0), ON(V(5, 15, 209), UNKNOWN),
  ON(V(6, 1, 175), V(6, 1, 178)), ON(0, V(6, 6, 144)), ON(0, V(6, 12, 95)), ON(0, V(6, 18, 33)),
  ON(0, V(7, 0, 10)))
B("CVE-2026-53361", NULL, V(6, 9, 0), V(7, 1, 0), ON(V(6, 1, 141), V(6, 1, 183)),
  ON(V(6, 6, 93), V(6, 6, 144)), ON(0, V(6, 12, 95)), ON(0, V(6, 18, 38)))
B("CVE-2026-80521", NULL, V(6, 10, 0), V(7, 2, 0), ON(V(6, 1, 141), V(6, 1, 189)),
  ON(V(6, 6, 93), UNKNOWN), ON(0, V(6, 12, 111)), ON(0, V(6, 18, 53)), ON(0, V(7, 1, 10)))
