/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The system workqueues are symbols of constant value, in a fork's child too. */
#include <linux/workqueue.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

/* As a program does that was not compiled with the macros: a table of its own. */
static struct cmwq_workqueue *const *const all[] = {
	&cmwq_system_percpu_wq, &cmwq_system_highpri_wq, &cmwq_system_long_wq, &cmwq_system_dfl_wq, &cmwq_system_dfl_long_wq,
	&cmwq_system_freezable_wq, &cmwq_system_power_efficient_wq, &cmwq_system_freezable_power_efficient_wq, &cmwq_system_bh_wq,
	&cmwq_system_bh_highpri_wq, &cmwq_system_deprecated_wq, &cmwq_system_deprecated_unbound_wq,
};
enum { NR = sizeof(all) / sizeof(all[0]) };

static int nr_run;

static void run(struct work_struct *work)
{
	(void)work;
	__atomic_fetch_add(&nr_run, 1, __ATOMIC_RELAXED);
}

static void use_all(void)
{
	struct work_struct work;
	int i, before = nr_run;

	INIT_WORK_ONSTACK(&work, run);
	for (i = 0; i < NR; i++) {
		CHECK(*all[i] == cmwq_system_workqueue((enum cmwq_system)i));
		CHECK(cmwq_queue_work(*all[i], cmwq_of_work(&work)));
		flush_work(&work);
	}
	CHECK(nr_run == before + NR);
	CHECK(system_wq != system_percpu_wq && queue_work(system_dfl_wq, &work));
	flush_work(&work);
	destroy_work_on_stack(&work);
}

static void never_run(struct cmwq_work *work)
{
	CHECK(!work);
}

static void silent(const char *text, void *arg)
{
	(void)text;
	++*(int *)arg;
}

/*
 * Of a process that has threads: ThreadSanitizer does not support that it creates more, and AddressSanitizer (of gcc 12) leaves its allocator locked
 * there if another thread was in it.
 */
#if !defined(CMWQ_TSAN) && !defined(__SANITIZE_ADDRESS__)
#define CHILDREN 1
static void in_a_child(void)
{
	pid_t child = fork();
	int status;

	CHECK(child >= 0);
	if (!child) {
		use_all();
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
}
#endif

int main(void)
{
	int i, j, nr_warnings = 0;
	struct cmwq_work never = CMWQ_WORK_INIT(never_run);

	cmwq_set_warning_handler(silent, &nr_warnings);
	for (i = 0; i < NR; i++)
		for (j = 0; j < i; j++)
			CHECK(*all[i] != *all[j]);
	use_all();
	/* One for the two that are deprecated. */
	CHECK(nr_warnings == 1);
	use_all();
	CHECK(nr_warnings == 1);
	CHECK(cmwq_destroy_workqueue(cmwq_system_dfl_wq) < 0);
#ifdef CHILDREN
	in_a_child();
#endif
	/* Numbers that stand for nothing. */
	for (i = 1; i < 4096; i++)
		if (i % 16 || i / 16 > NR)
			CHECK(!cmwq_queue_work((struct cmwq_workqueue *)(uintptr_t)i, &never));
	return 0;
}
