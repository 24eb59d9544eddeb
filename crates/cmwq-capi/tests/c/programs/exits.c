/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Work functions, and other functions that workers call, that end their thread by pthread_exit() or a cancellation: the item counts as ended, the
 * pool gets another worker, the thread's cleanup handlers and the destructors of its data run, and the process goes on.
 */
#include <cmwq.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

static pthread_key_t key;
static atomic_int cleaned, destroyed, started, exited, ran;

static void clean(void *arg)
{
	(void)arg;
	cleaned++;
}

static void destroy(void *value)
{
	(void)value;
	destroyed++;
}

static void on_start(const struct cmwq_worker *worker, void *arg)
{
	(void)worker;
	(void)arg;
	started++;
}

static void on_exit_of_thread(const struct cmwq_worker *worker, void *arg)
{
	(void)worker;
	(void)arg;
	exited++;
	/* As Python's, when its interpreter has ended. */
	pthread_exit(NULL);
}

static void leave(void *arg)
{
	(void)arg;
	pthread_setspecific(key, &key);
	pthread_cleanup_push(clean, NULL);
	pthread_exit(NULL);
	pthread_cleanup_pop(0);
}

static void exits(struct cmwq_work *work)
{
	leave(work);
}

static void is_cancelled(struct cmwq_work *work)
{
	(void)work;
	pthread_setspecific(key, &key);
	pthread_cleanup_push(clean, NULL);
	pthread_cancel(pthread_self());
	for (;;)
		pause();
	pthread_cleanup_pop(0);
}

static void exits_while_blocking(struct cmwq_work *work)
{
	pthread_cleanup_push(clean, NULL);
	cmwq_blocking(leave, work);
	pthread_cleanup_pop(0);
}

static void plain(struct cmwq_work *work)
{
	(void)work;
	ran++;
}

static long exits_on_cpu(void *arg)
{
	leave(arg);
	return 5;
}

static int64_t exits_for_queue(void *arg)
{
	leave(arg);
	return 5;
}

static int check(const char *what, int is, int expected)
{
	if (is == expected)
		return 0;
	fprintf(stderr, "%s: %d, not %d\n", what, is, expected);
	return 1;
}

static void wait_for(atomic_int *count, int expected)
{
	while (*count < expected)
		usleep(1000);
}

#define ROUNDS 50

/* Each function in turn, and plain items before and after it. */
static int all_end(unsigned int flags)
{
	cmwq_work_fn funcs[] = {exits, is_cancelled, exits_while_blocking};
	struct cmwq_workqueue_options options = CMWQ_WORKQUEUE_OPTIONS_INIT;
	struct cmwq_thread_attrs attrs = CMWQ_THREAD_ATTRS_INIT;
	struct cmwq_threads *threads;
	struct cmwq_workqueue *wq;
	struct cmwq_work works[3 * ROUNDS], others[ROUNDS];
	int i, wrong = 0;

	cleaned = destroyed = started = exited = ran = 0;
	attrs.worker_start = on_start;
	attrs.worker_exit = on_exit_of_thread;
	options.threads = threads = cmwq_alloc_threads(&attrs);
	wq = cmwq_alloc_workqueue_with("exits", flags, 0, &options);
	if (!wq)
		return 1;
	for (i = 0; i < ROUNDS; i++) {
		cmwq_init_work(&others[i], plain);
		cmwq_queue_work(wq, &others[i]);
	}
	for (i = 0; i < 3 * ROUNDS; i++) {
		cmwq_init_work(&works[i], funcs[i % 3]);
		cmwq_queue_work(wq, &works[i]);
		/* Alone, or among others. */
		if (i % 4)
			cmwq_flush_work(&works[i]);
	}
	cmwq_flush_workqueue(wq);
	wrong |= check("cleanup handlers", cleaned, 4 * ROUNDS);
	for (i = 0; i < ROUNDS; i++)
		cmwq_queue_work(wq, &others[i]);
	cmwq_flush_workqueue(wq);
	wrong |= check("plain items", ran, 2 * ROUNDS);
	/* Each item that was waited for has ended a thread, which was hooked to its end; of the others several may have ended one. */
	wait_for(&destroyed, 2 * ROUNDS);
	wait_for(&exited, 2 * ROUNDS);
	wrong |= check("threads that began", started > 2 * ROUNDS, 1);
	cmwq_destroy_workqueue(wq);
	cmwq_free_threads(threads);
	return wrong;
}

static atomic_int open_gate;

static void gate(struct cmwq_work *work)
{
	(void)work;
	while (!open_gate)
		;
}

/*
 * Short items are taken several at a time: what is taken with an item that ends its thread runs on another one. On the ended thread a cancellation
 * would have no effect.
 */
static int taken_together(void)
{
	enum { SHORT = 100, TOGETHER = 8 };
	struct cmwq_work shorts[SHORT], before, works[TOGETHER];
	struct cmwq_workqueue *wq = cmwq_alloc_workqueue("together", CMWQ_WQ_PERCPU, 0);
	int i, round, wrong = 0;

	if (!wq)
		return 1;
	for (round = 0; round < 20; round++) {
		cleaned = ran = open_gate = 0;
		for (i = 0; i < SHORT; i++) {
			cmwq_init_work(&shorts[i], plain);
			cmwq_queue_work_on(0, wq, &shorts[i]);
		}
		cmwq_flush_workqueue(wq);
		cmwq_init_work(&before, gate);
		cmwq_queue_work_on(0, wq, &before);
		for (i = 0; i < TOGETHER; i++) {
			cmwq_init_work(&works[i], i == 1 ? exits : i == 2 ? is_cancelled : plain);
			cmwq_queue_work_on(0, wq, &works[i]);
		}
		open_gate = 1;
		cmwq_flush_workqueue(wq);
		wrong |= check("items of a batch", ran, SHORT + TOGETHER - 2);
		wrong |= check("their cleanup handlers", cleaned, 2);
	}
	cmwq_destroy_workqueue(wq);
	return wrong;
}

static struct cmwq_workqueue *again_on;
static struct cmwq_work next;
static atomic_int again;

/* The first instance queues the item again and ends its thread, the second one is cancelled. */
static void twice(struct cmwq_work *work)
{
	if (again++ == 0) {
		cmwq_queue_work(again_on, work);
		/* When the next item has run, this one has been put behind its run. */
		cmwq_queue_work(again_on, &next);
		wait_for(&ran, 1);
		leave(work);
	}
	is_cancelled(work);
}

/* What is queued again while it runs goes behind its run, but not on a thread that has ended. */
static int queued_again(void)
{
	struct cmwq_work work;
	int round, wrong = 0;

	again_on = cmwq_alloc_workqueue("again", CMWQ_WQ_UNBOUND, 0);
	if (!again_on)
		return 1;
	for (round = 0; round < 20; round++) {
		cleaned = again = ran = 0;
		cmwq_init_work(&next, plain);
		cmwq_init_work(&work, twice);
		cmwq_queue_work(again_on, &work);
		/* A flush waits for what was queued before it. */
		wait_for(&cleaned, 2);
		cmwq_flush_workqueue(again_on);
		wrong |= check("instances", again, 2);
	}
	cmwq_destroy_workqueue(again_on);
	return wrong;
}

#define VALUE ((void *)7)

static void leave_with_a_value(void *arg)
{
	(void)arg;
	pthread_exit(VALUE);
}

static void cancel_oneself(void *arg)
{
	(void)arg;
	pthread_cancel(pthread_self());
	pthread_testcancel();
}

static void *blocks(void *func)
{
	pthread_cleanup_push(clean, NULL);
	cmwq_blocking(*(void (**)(void *))func, NULL);
	pthread_cleanup_pop(0);
	return NULL;
}

/* Its value when it has ended. */
static void *value_of(void *(*func)(void *), void *arg)
{
	pthread_t thread;
	void *value = NULL;

	if (pthread_create(&thread, NULL, func, arg) || pthread_join(thread, &value))
		return NULL;
	return value;
}

/* What ends a thread of the program inside cmwq_blocking() ends it with its value. */
static int blocking_threads(void)
{
	void (*exit)(void *) = leave_with_a_value, (*cancel)(void *) = cancel_oneself;
	int wrong = 0;

	cleaned = 0;
	wrong |= check("value of an exit", value_of(blocks, &exit) == VALUE, 1);
	wrong |= check("value of a cancellation", value_of(blocks, &cancel) == PTHREAD_CANCELED, 1);
	wrong |= check("cleanup handlers of threads", cleaned, 2);
	return wrong;
}

static atomic_int warned;

static void exits_when_warned(const char *text, void *arg)
{
	(void)text;
	warned++;
	leave(arg);
}

static void is_cancelled_when_warned(const char *text, void *arg)
{
	(void)text;
	warned++;
	cancel_oneself(arg);
}

static void *goes_on(void *arg)
{
	if (cmwq_queue_work(arg, NULL))
		return NULL;
	/* The thread can still be ended by what is no handler. */
	pthread_cleanup_push(clean, NULL);
	leave_with_a_value(arg);
	pthread_cleanup_pop(0);
	return NULL;
}

static void *is_cancelled_later(void *arg)
{
	if (cmwq_cancel_work(arg))
		return VALUE;
	pthread_cleanup_push(clean, NULL);
	pthread_testcancel();
	pthread_cleanup_pop(0);
	return VALUE;
}

/* A handler of warnings ends only its own call, on threads of the program as well; a cancellation comes after the call. */
static int handlers_of_warnings(void)
{
	int wrong = 0;

	cleaned = 0;
	cmwq_set_warning_handler(exits_when_warned, NULL);
	wrong |= check("a thread goes on", value_of(goes_on, NULL) == VALUE, 1);
	wrong |= check("handler and thread are cleaned up", cleaned, 2);
	/* The thread of main() as well. */
	wrong |= check("nothing to flush", cmwq_flush_work(NULL), 0);
	cmwq_set_warning_handler(is_cancelled_when_warned, NULL);
	wrong |= check("a cancellation waits", value_of(is_cancelled_later, NULL) == PTHREAD_CANCELED, 1);
	wrong |= check("cleanup handlers", cleaned, 4);
	wrong |= check("warnings", warned, 3);
	cmwq_set_warning_handler(NULL, NULL);
	return wrong;
}

int main(void)
{
	unsigned int flags[] = {CMWQ_WQ_UNBOUND, CMWQ_WQ_PERCPU, CMWQ_WQ_BH, CMWQ_WQ_UNBOUND | CMWQ_WQ_MEM_RECLAIM};
	struct cmwq_cq *cq = cmwq_cq_create(0, 0);
	struct cmwq_cqe entry = {0, 0};
	struct cmwq_workqueue *wq = cmwq_alloc_workqueue("cq", CMWQ_WQ_UNBOUND, 0);
	size_t i;

	alarm(120);
	if (!cq || !wq || pthread_key_create(&key, destroy))
		return 1;
	for (i = 0; i < sizeof(flags) / sizeof(*flags); i++) {
		if (all_end(flags[i])) {
			fprintf(stderr, "flags %#x\n", flags[i]);
			return 2;
		}
	}
	if (taken_together())
		return 6;
	if (queued_again())
		return 7;
	if (blocking_threads())
		return 8;
	if (handlers_of_warnings())
		return 9;
	destroyed = 0;
	if (cmwq_cq_execute(cq, wq, exits_for_queue, NULL, 7) || cmwq_cq_wait(cq, &entry, 1) != 1)
		return 3;
	if (check("token", (int)entry.token, 7) || check("no result", entry.result == INT64_MIN, 1))
		return 4;
	if (check("work_on_cpu", cmwq_work_on_cpu(cmwq_current_cpu(), exits_on_cpu, NULL) < 0, 1))
		return 5;
	wait_for(&destroyed, 2);
	cmwq_cq_destroy(cq);
	cmwq_destroy_workqueue(wq);
	return 0;
}
