/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the small programs share: a check that ends the program with the line that failed, and waits that end. */
#ifndef CHECK_H
#define CHECK_H

#include <cmwq.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                                         \
	do {                                                                                     \
		if (!(condition)) {                                                              \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
			_Exit(1);                                                                \
		}                                                                                \
	} while (0)

/* How long anything may take that should happen soon. */
#define SOON_NS 60000000000ull

/* Waits until the condition holds. */
#define CHECK_SOON(condition)                                                \
	do {                                                                 \
		uint64_t check_until = cmwq_now_ns() + SOON_NS;              \
		while (!(condition) && cmwq_now_ns() < check_until)          \
			cmwq_sleep_ns(200000);                                   \
		CHECK(condition);                                            \
	} while (0)

#endif
