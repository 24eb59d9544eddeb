/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A function that runs on one CPU, and a function that runs on each of them. */
#include <cmwq.h>
#include <stdatomic.h>
#include <stdio.h>

static atomic_int flushed;

static long read_counter(void *arg)
{
	(void)arg;
	return 7;
}

static void flush_cache(struct cmwq_work *work)
{
	(void)work;
	atomic_fetch_add(&flushed, 1);
}

int main(void)
{
	long counter;

	counter = cmwq_work_on_cpu(cmwq_current_cpu(), read_counter, NULL);
	printf("the counter is %ld\n", counter);
	if (cmwq_schedule_on_each_cpu(flush_cache))
		return 1;
	printf("%s\n", flushed > 0 ? "all caches are flushed" : "no CPU");
	return 0;
}
