/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that the build embeds into the monitor as bytes (runtime/blob.py). */
#pragma once

extern const unsigned char native_zygote_extension[];
extern const unsigned char native_zygote_extension_end[];
extern const unsigned char native_machine_library[];
extern const unsigned char native_machine_library_end[];
extern const unsigned char native_output_extension[];
extern const unsigned char native_output_extension_end[];
extern const unsigned char native_sudo_program[];
extern const unsigned char native_sudo_program_end[];
extern const unsigned char native_init_program[];
extern const unsigned char native_init_program_end[];
