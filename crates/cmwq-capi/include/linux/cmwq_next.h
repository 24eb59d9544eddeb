/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space. It includes the next
 * header with the name CMWQ_NEXT on the include path, if there is one. A header that steps aside
 * defines CMWQ_NEXT and includes this one, which is the only system header of cmwq: compilers are
 * silent about wrong code that a macro of a system header contains, and -Wpedantic must be silent
 * about include_next. It has no include guard. CMWQ_NEXT is in quotes, since `linux` is a macro.
 */
#ifdef CMWQ_NEXT
#ifdef __GNUC__
#pragma GCC system_header
#endif
#ifdef __has_include_next
#if __has_include_next(CMWQ_NEXT)
#include_next CMWQ_NEXT
#endif
#endif
#endif
