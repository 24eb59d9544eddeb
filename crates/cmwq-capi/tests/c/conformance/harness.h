/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the groups of the suite share. Assertions belong in test functions only: cmocka leaves them by longjmp. */
#ifndef HARNESS_H
#define HARNESS_H

#define _GNU_SOURCE
#include <linux/completion.h>
#include <linux/kernel.h>
#include <linux/workqueue.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

/* How long anything may take that should happen soon: valgrind and sanitizers are slow, and so is what runs beside processes that compute. */
#define SOON_MS 60000

int items_tests(void);
int delayed_tests(void);
int flush_tests(void);
int limit_tests(void);
int queue_tests(void);
int misuse_tests(void);

static inline void sleep_ms(long ms)
{
	struct timespec t = {ms / 1000, ms % 1000 * 1000000};

	nanosleep(&t, NULL);
}

/* Whether the condition becomes true soon. */
#define becomes(condition)                                                      \
	__extension__({                                                         \
		uint64_t until_ = cmwq_now_ns() + SOON_MS * 1000000ull;         \
		while (!(condition) && cmwq_now_ns() < until_)                  \
			sleep_ms(1);                                            \
		!!(condition);                                                  \
	})

/* An item that counts its runs, and can be held while it runs. */
struct probe {
	struct work_struct work;
	atomic_int runs, running, most;
	/* While set, a run does not end. */
	atomic_bool hold;
};

void probe_run(struct work_struct *work);
void probe_init(struct probe *probe);
/* Starts it on `wq` and waits until it runs, held. */
void probe_hold(struct probe *probe, struct workqueue_struct *wq);
void probe_let_go(struct probe *probe);

/* Warnings that were said since the last call of warnings_reset(). */
void warnings_reset(void);
int warnings(const char *text);

struct workqueue_struct *new_wq(unsigned int flags, int max_active);

#endif
