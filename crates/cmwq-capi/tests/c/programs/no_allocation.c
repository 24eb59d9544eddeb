/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Queueing allocates nothing: the program's allocator counts what the calling thread asks for. */
#define _GNU_SOURCE
#include <linux/workqueue.h>
#include <stdlib.h>

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *memory, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);

static __thread unsigned long allocations;

void *malloc(size_t size)
{
	allocations++;
	return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
	allocations++;
	return __libc_calloc(count, size);
}

void *realloc(void *memory, size_t size)
{
	allocations++;
	return __libc_realloc(memory, size);
}

int posix_memalign(void **memory, size_t alignment, size_t size)
{
	allocations++;
	*memory = __libc_memalign(alignment, size);
	return *memory ? 0 : 12;
}

static void run(struct work_struct *work)
{
	(void)work;
}

enum { WINDOWS = 200, WINDOW = 50 };

int main(void)
{
	struct workqueue_struct *wq = alloc_workqueue("lean", WQ_UNBOUND, 0);
	struct work_struct items[WINDOW];
	struct delayed_work delayed;
	int window, i, clean = 0;

	if (!wq)
		return 1;
	INIT_DELAYED_WORK(&delayed, run);
	for (i = 0; i < WINDOW; i++)
		INIT_WORK(&items[i], run);
	/* Now and then the caller asks for a worker, which may allocate: that comes with time, not with items. */
	for (window = 0; window < WINDOWS; window++) {
		unsigned long before = allocations;

		for (i = 0; i < WINDOW; i++)
			queue_work(wq, &items[i]);
		for (i = 0; i < WINDOW; i++) {
			mod_delayed_work(wq, &delayed, 1000);
			cancel_delayed_work(&delayed);
		}
		clean += allocations == before;
		flush_workqueue(wq);
	}
	destroy_workqueue(wq);
	printf("%d of %d windows without an allocation\n", clean, WINDOWS);
	return clean > WINDOWS * 9 / 10 ? 0 : 1;
}
