/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A function frees its item, and runs something on each CPU: those items may get the address of the freed one. They are waited for all the
 * same, also those of the function that is running.
 */
#include <cmwq.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define must(condition)                                                      \
	do {                                                                 \
		if (!(condition)) {                                          \
			fprintf(stderr, "%d: not so: %s\n", __LINE__, #condition); \
			_exit(1);                                            \
		}                                                            \
	} while (0)

static int cpus;
static atomic_int runs, others, warnings;
static struct cmwq_completion done;

static void take_a_moment(void)
{
	struct timespec t = {0, 5000000};

	nanosleep(&t, NULL);
}

static void other(struct cmwq_work *work)
{
	(void)work;
	take_a_moment();
	others++;
}

static void frees_itself(struct cmwq_work *work)
{
	static atomic_bool first = true;
	int before;

	if (!atomic_exchange(&first, false)) {
		take_a_moment();
		runs++;
		return;
	}
	free(work);
	must(cmwq_schedule_on_each_cpu(other) == 0);
	before = others;
	must(before == cpus);
	must(cmwq_schedule_on_each_cpu(frees_itself) == 0);
	before = runs;
	must(before == cpus);
	cmwq_complete(&done);
}

static void hear(const char *text, void *arg)
{
	(void)arg;
	fprintf(stderr, "%s\n", text);
	warnings++;
}

int main(void)
{
	struct cmwq_workqueue *wq = cmwq_alloc_workqueue("reused", CMWQ_WQ_UNBOUND, 0);
	struct cmwq_cpumask *online = malloc(sizeof(*online));
	struct cmwq_work *work;
	size_t i;

	must(wq && online && cmwq_online_cpus(online) == 0);
	for (i = 0; i < sizeof(online->bits) / sizeof(online->bits[0]); i++)
		cpus += __builtin_popcountll(online->bits[i]);
	free(online);
	cmwq_set_warning_handler(hear, NULL);
	/* As large as the items for all CPUs together: an allocator that uses memory again gives it to them. */
	work = malloc((size_t)cpus * sizeof(*work));
	must(work);
	cmwq_init_work(work, frees_itself);
	must(cmwq_queue_work(wq, work));
	cmwq_wait_for_completion(&done);
	must(cmwq_destroy_workqueue(wq) == 0);
	must(warnings == 0);
	return 0;
}
