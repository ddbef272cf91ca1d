/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of addresses that are not public: the special-purpose registries of IANA, and the metadata
 * services of clouds. The first block that contains an address decides.
 * V4(a, b, c, d, bits, CLASS, "name")   V6(first 16-bit groups..., bits, CLASS, "name") */
V4(0, 0, 0, 0, 8, LOCAL, "unspecified")
V4(10, 0, 0, 0, 8, LOCAL, "private")
V4(100, 64, 0, 0, 10, LOCAL, "shared")
V4(127, 0, 0, 0, 8, LOCAL, "loopback")
V4(168, 63, 129, 16, 32, LOCAL, "metadata") /* Azure's wire server */
V4(169, 254, 0, 0, 16, LOCAL, "link-local") /* 169.254.169.254 with it */
V4(172, 16, 0, 0, 12, LOCAL, "private")
V4(192, 0, 0, 0, 24, LOCAL, "protocol")
V4(192, 0, 2, 0, 24, SPECIAL, "documentation")
V4(192, 31, 196, 0, 24, LOCAL, "as112")
V4(192, 52, 193, 0, 24, LOCAL, "amt")
V4(192, 88, 99, 0, 24, LOCAL, "6to4-relay")
V4(192, 168, 0, 0, 16, LOCAL, "private")
V4(192, 175, 48, 0, 24, LOCAL, "as112")
V4(198, 18, 0, 0, 15, SPECIAL, "benchmark")
V4(198, 51, 100, 0, 24, SPECIAL, "documentation")
V4(203, 0, 113, 0, 24, SPECIAL, "documentation")
V4(224, 0, 0, 0, 4, LOCAL, "multicast")
V4(240, 0, 0, 0, 4, LOCAL, "reserved") /* 255.255.255.255 with it */
V6(0, 0, 0, 0, 0, 0, 0, 0, 128, LOCAL, "unspecified")
V6(0, 0, 0, 0, 0, 0, 0, 1, 128, LOCAL, "loopback")
V6(0, 0, 0, 0, 0, 0xffff, 0, 0, 96, LOCAL, "v4-mapped")
V6(0, 0, 0, 0, 0xffff, 0, 0, 0, 96, LOCAL, "v4-translated")
V6(0, 0, 0, 0, 0, 0, 0, 0, 96, LOCAL, "v4-compatible")
V6(0x64, 0xff9b, 0, 0, 0, 0, 0, 0, 96, LOCAL, "nat64")
V6(0x64, 0xff9b, 1, 0, 0, 0, 0, 0, 48, LOCAL, "nat64")
V6(0x100, 0, 0, 0, 0, 0, 0, 0, 64, LOCAL, "discard")
V6(0x2001, 0, 0, 0, 0, 0, 0, 0, 32, LOCAL, "teredo")
V6(0x2001, 0, 0, 0, 0, 0, 0, 0, 23, LOCAL, "protocol") /* ORCHID and others */
V6(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0, 32, SPECIAL, "documentation")
V6(0x2002, 0, 0, 0, 0, 0, 0, 0, 16, LOCAL, "6to4")
V6(0x2620, 0x4f, 0x8000, 0, 0, 0, 0, 0, 48, LOCAL, "as112")
V6(0x3fff, 0, 0, 0, 0, 0, 0, 0, 20, SPECIAL, "documentation")
V6(0xfc00, 0, 0, 0, 0, 0, 0, 0, 7, LOCAL, "unique-local") /* fd00:ec2::254 with it */
V6(0xfe80, 0, 0, 0, 0, 0, 0, 0, 10, LOCAL, "link-local")
V6(0xfec0, 0, 0, 0, 0, 0, 0, 0, 10, LOCAL, "site-local")
V6(0xff00, 0, 0, 0, 0, 0, 0, 0, 8, LOCAL, "multicast")
