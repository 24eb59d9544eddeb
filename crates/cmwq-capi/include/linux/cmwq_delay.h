/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The length of a jiffy, in the program's own header or in ours. A header includes this file after
 * <linux/jiffies.h>.
 */
#ifndef CMWQ_LINUX_CMWQ_DELAY_H
#define CMWQ_LINUX_CMWQ_DELAY_H

#include <cmwq.h>

/* Our jiffies are milliseconds; a program's own are what its HZ says. */
#ifndef CMWQ_NSEC_PER_JIFFY
#if !defined(CMWQ_JIFFIES_ARE_MS) && defined(HZ)
#define CMWQ_NSEC_PER_JIFFY (1000000000UL / HZ)
#else
#define CMWQ_NSEC_PER_JIFFY 1000000UL
#endif
#endif

/* Converts jiffies to nanoseconds. A number that does not fit means "for ever". */
static inline uint64_t cmwq_jiffies_to_ns(unsigned long j)
{
	return j > UINT64_MAX / CMWQ_NSEC_PER_JIFFY ? UINT64_MAX
						    : j * (uint64_t)CMWQ_NSEC_PER_JIFFY;
}

#endif
