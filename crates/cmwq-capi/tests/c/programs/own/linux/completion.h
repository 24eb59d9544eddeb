/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A tool's own header: its completion is not ours. */
#ifndef OWN_COMPLETION_H
#define OWN_COMPLETION_H
#include <stdatomic.h>
struct completion {
	atomic_int done;
};
static inline void complete(struct completion *x)
{
	x->done = 1;
}
static inline void wait_for_completion(struct completion *x)
{
	while (!x->done)
		;
}
#endif
