/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A tool's own header: its types are not ours. */
#ifndef OWN_TYPES_H
#define OWN_TYPES_H
#include <stdint.h>
typedef unsigned long u64;
typedef unsigned long gfp_t;
struct list_head {
	struct list_head *next, *prev;
};
#endif
