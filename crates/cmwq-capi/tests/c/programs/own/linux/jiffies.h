/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A tool's own header: its jiffies are a fiftieth of a second. */
#ifndef OWN_JIFFIES_H
#define OWN_JIFFIES_H
#include <time.h>
#define HZ 50
static inline unsigned long own_jiffies(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (unsigned long)now.tv_sec * HZ + (unsigned long)now.tv_nsec / (1000000000 / HZ);
}
#define jiffies own_jiffies()
#endif
