/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space. The system's own header
 * of this name comes first, so that what includes that finds it. A program that brings its own
 * u8... and gfp_t defines CMWQ_NO_TYPES; its own struct list_head, CMWQ_NO_LIST_HEAD; its own
 * atomic_t, CMWQ_NO_ATOMIC.
 */
#ifndef CMWQ_LINUX_TYPES_H
#define CMWQ_LINUX_TYPES_H

#include <linux/cmwq_base.h>
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/types.h"
#include <linux/cmwq_next.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifndef CMWQ_NO_TYPES
typedef uint8_t u8;
typedef int8_t s8;
typedef uint16_t u16;
typedef int16_t s16;
typedef uint32_t u32;
typedef int32_t s32;
typedef unsigned long long u64;
typedef long long s64;
typedef unsigned int gfp_t;
typedef unsigned short umode_t;
typedef u64 sector_t, phys_addr_t, dma_addr_t, resource_size_t;
typedef unsigned long pgoff_t;
#endif

/*
 * As in the kernel, here, since struct work_struct has one; what is done with them is in
 * <linux/atomic.h>.
 */
#ifndef CMWQ_NO_ATOMIC
typedef struct {
	int counter;
} atomic_t;

typedef struct {
	long long counter;
} atomic64_t;

typedef struct {
	long counter;
} atomic_long_t;

#define ATOMIC_INIT(value) {value}
#define ATOMIC64_INIT(value) {value}
#define ATOMIC_LONG_INIT(value) {value}
#endif

#ifndef CMWQ_NO_LIST_HEAD
struct list_head {
	struct list_head *next, *prev;
};
#endif

#endif
