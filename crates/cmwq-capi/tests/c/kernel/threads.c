/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Wait queues, kernel threads, semaphores for readers and writers, caches. */
#include <pthread.h>
#include <linux/delay.h>
#include <linux/kernel.h>
#include <linux/kthread.h>
#include <linux/rcupdate.h>
#include <linux/rwsem.h>
#include <linux/slab.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <linux/cpumask.h>

#include "check.h"

enum { ROUNDS = 5000, CONSUMERS = 3 };

static DECLARE_WAIT_QUEUE_HEAD(filled);
static DECLARE_WAIT_QUEUE_HEAD(emptied);
static int slot, consumed, ended;
/* Counts the threads that have begun: one that is stopped before it has begun never runs, and answers -EINTR. */
static int begun;

static bool take(void)
{
	int one = 1;

	return __atomic_compare_exchange_n(&slot, &one, 0, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

static int consume(void *data)
{
	__atomic_fetch_add(&begun, 1, __ATOMIC_SEQ_CST);
	for (;;) {
		bool got = false;

		if (wait_event_interruptible_exclusive(filled, (got = take()) || READ_ONCE(ended)))
			return 1;
		if (!got)
			return *(int *)data;
		__atomic_fetch_add(&consumed, 1, __ATOMIC_SEQ_CST);
		wake_up(&emptied);
	}
}

static void wait_queues(void)
{
	struct task_struct *tasks[CONSUMERS];
	int answer = 42, i;

	for (i = 0; i < CONSUMERS; i++) {
		tasks[i] = kthread_run(consume, &answer, "consumer/%d", i);
		CHECK(!IS_ERR(tasks[i]));
	}
	CHECK_SOON(READ_ONCE(begun) == CONSUMERS);
	for (i = 0; i < ROUNDS; i++) {
		__atomic_store_n(&slot, 1, __ATOMIC_SEQ_CST);
		wake_up(&filled);
		CHECK(wait_event_timeout(emptied, READ_ONCE(consumed) == i + 1, 60 * HZ));
	}
	WRITE_ONCE(ended, 1);
	wake_up_all(&filled);
	for (i = 0; i < CONSUMERS; i++)
		CHECK(kthread_stop(tasks[i]) == 42);
	CHECK(!waitqueue_active(&filled) && wait_event_timeout(emptied, false, 2) == 0 && wait_event_timeout(emptied, true, 5) >= 1);
}

static int beats;

static int beat(void *data)
{
	CHECK(data == &beats && kthread_data(current) == &beats);
	while (!kthread_should_stop()) {
		if (kthread_should_park())
			kthread_parkme();
		__atomic_fetch_add(&beats, 1, __ATOMIC_SEQ_CST);
		set_current_state(TASK_INTERRUPTIBLE);
		if (!kthread_should_stop() && !kthread_should_park())
			schedule_timeout(1);
		__set_current_state(TASK_RUNNING);
	}
	return 7;
}

static int where(void *data)
{
	WRITE_ONCE(*(int *)data, raw_smp_processor_id());
	while (!kthread_should_stop())
		schedule_timeout_uninterruptible(1);
	return 0;
}

static void kernel_threads(void)
{
	struct task_struct *task;
	int cpu = (int)cpumask_first(cpu_online_mask), at = -1, before, round;

	task = kthread_create(beat, &beats, "never");
	CHECK(kthread_stop(task) == -EINTR && beats == 0);
	/* One that parks before it was ever woken. */
	task = kthread_create(where, &at, "parked");
	CHECK(kthread_park(task) == 0 && READ_ONCE(at) == -1);
	kthread_unpark(task);
	CHECK_SOON(READ_ONCE(at) >= 0);
	CHECK(kthread_stop(task) == 0);
	at = -1;
	task = kthread_run(beat, &beats, "beat");
	CHECK_SOON(READ_ONCE(beats) > 2);
	for (round = 0; round < 200; round++) {
		CHECK(kthread_park(task) == 0);
		before = READ_ONCE(beats);
		if (round == 0)
			msleep(5);
		CHECK(READ_ONCE(beats) == before && kthread_park(task) == -EBUSY);
		kthread_unpark(task);
		if (round % 16 == 0)
			CHECK_SOON(READ_ONCE(beats) > before);
	}
	CHECK(kthread_stop(task) == 7);
	task = kthread_create(where, &at, "where");
	kthread_bind(task, (unsigned int)cpu);
	CHECK(at == -1 && wake_up_process(task) == 1);
	CHECK_SOON(READ_ONCE(at) == cpu);
	CHECK(kthread_stop(task) == 0);
}

static DECLARE_COMPLETION(about_to_sleep);
static int handed;

/* It was woken before it sleeps, and sees what its waker did before. */
static int sleep_late(void *data)
{
	set_current_state(TASK_UNINTERRUPTIBLE);
	complete(&about_to_sleep);
	CHECK_SOON(task_is_running(current));
	schedule();
	CHECK(handed == *(int *)data);
	while (!kthread_should_stop())
		schedule_timeout_uninterruptible(1);
	return 0;
}

static void woken_early(void)
{
	int what = 3;
	struct task_struct *task = kthread_run(sleep_late, &what, "late");

	CHECK(!IS_ERR(task));
	wait_for_completion(&about_to_sleep);
	handed = what;
	CHECK(wake_up_process(task) == 1);
	CHECK(kthread_stop(task) == 0);
}

static DECLARE_RWSEM(rwsem);
static int value, copy;

static int write_pairs(void *data)
{
	int i;

	__atomic_fetch_add(&begun, 1, __ATOMIC_SEQ_CST);
	for (i = 0; i < 2000; i++) {
		down_write(&rwsem);
		value++;
		copy++;
		downgrade_write(&rwsem);
		CHECK(value == copy);
		up_read(&rwsem);
		down_read(&rwsem);
		CHECK(value == copy && !down_write_trylock(&rwsem));
		up_read(&rwsem);
	}
	while (!kthread_should_stop())
		schedule_timeout_uninterruptible(1);
	return data != NULL;
}

static void reader_writer(void)
{
	struct task_struct *tasks[3];
	int i;

	begun = 0;
	for (i = 0; i < 3; i++)
		tasks[i] = kthread_run(write_pairs, NULL, "rw/%d", i);
	CHECK_SOON(READ_ONCE(begun) == 3);
	for (i = 0; i < 3; i++)
		CHECK(kthread_stop(tasks[i]) == 0);
	CHECK(value == 6000 && down_write_trylock(&rwsem) && !down_read_trylock(&rwsem) && rwsem_is_locked(&rwsem));
	up_write(&rwsem);
	CHECK(down_read_trylock(&rwsem) && down_read_trylock(&rwsem));
	up_read(&rwsem);
	up_read(&rwsem);
	CHECK(!rwsem_is_locked(&rwsem));
}

struct object {
	long a;
	int b;
};

static void construct(void *object)
{
	((struct object *)object)->b = 5;
}

static void caches(void)
{
	struct kmem_cache *cache = kmem_cache_create("objects", sizeof(struct object), 64, SLAB_HWCACHE_ALIGN, construct);
	struct object *object = (struct object *)kmem_cache_alloc(cache, GFP_KERNEL);

	CHECK(object->b == 5 && (uintptr_t)object % 64 == 0);
	kmem_cache_free(cache, object);
	kmem_cache_destroy(cache);
	object = kzalloc_obj(*object);
	CHECK(object->a == 0 && object->b == 0);
	kfree(object);
	CHECK(PTR_ERR_OR_ZERO(ERR_PTR(-EBUSY)) == -EBUSY && PTR_ERR_OR_ZERO(&cache) == 0);
}

static pthread_key_t key;

/* After the thread's task has gone. */
static void at_the_end(void *data)
{
	rcu_read_lock();
	CHECK(rcu_read_lock_held() && current->pid > 0);
	rcu_read_unlock();
	*(int *)data = 1;
}

static void *read_and_end(void *data)
{
	rcu_read_lock();
	rcu_read_unlock();
	pthread_setspecific(key, data);
	return NULL;
}

static void ending_threads(void)
{
	int i, called = 0;
	pthread_t thread;

	/* The library's key comes first, so its destructor does. */
	rcu_read_lock();
	rcu_read_unlock();
	CHECK(pthread_key_create(&key, at_the_end) == 0);
	for (i = 0; i < 3; i++) {
		called = 0;
		CHECK(pthread_create(&thread, NULL, read_and_end, &called) == 0);
		pthread_join(thread, NULL);
		CHECK(called == 1);
		synchronize_rcu();
	}
}

static int leaves(void *data)
{
	int way = *(int *)data;

	if (way == 0)
		pthread_exit(NULL);
	if (way == 1) {
		pthread_cancel(pthread_self());
		pthread_testcancel();
	}
	kthread_exit(5);
}

/* However a thread ends, it can be stopped afterwards. */
static void threads_that_leave(void)
{
	struct task_struct *tasks[3];
	int ways[3] = {0, 1, 2}, i;

	for (i = 0; i < 3; i++) {
		tasks[i] = kthread_run(leaves, &ways[i], "leaves");
		/* It has ended when it is stopped, or else it is told to stop before its function is called. */
		wait_for_completion(&cmwq_kthread_of(tasks[i])->exited);
	}
	CHECK(kthread_stop(tasks[0]) == 0 && kthread_stop(tasks[1]) == 0 && kthread_stop(tasks[2]) == 5);
}

int main(void)
{
	ending_threads();
	wait_queues();
	kernel_threads();
	threads_that_leave();
	woken_early();
	reader_writer();
	caches();
	return 0;
}
