/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Chains of notifiers: their order, what stops them, what is undone, and functions that come and go while threads call.
 *
 * Seen to fail with: equal priorities in the other order; no grace period when one is taken off; the one that refused undone too.
 */
#include <linux/atomic.h>
#include <linux/kthread.h>
#include <linux/notifier.h>
#include <linux/slab.h>

#include "check.h"

enum { UP = 1, DOWN = 2 };

struct listener {
	struct notifier_block nb;
	int name, answer;
	long told;
};

/* What was called, as digits; negative for what was undone. */
static long calls;

static int listen(struct notifier_block *nb, unsigned long action, void *data)
{
	struct listener *listener = container_of(nb, struct listener, nb);

	CHECK(data == &calls);
	calls = calls * 10 + listener->name + (action == DOWN ? 4 : 0);
	return listener->answer;
}

static struct listener listener(int name, int priority, int answer)
{
	struct listener it = {.nb = {.notifier_call = listen, .priority = priority}, .name = name, .answer = answer};

	return it;
}

#define ORDERED(kind, head)                                                                                        \
	do {                                                                                                       \
		struct listener a = listener(1, 0, NOTIFY_DONE), b = listener(2, 5, NOTIFY_OK), c = listener(3, 0, NOTIFY_OK); \
                                                                                                                   \
		CHECK(kind##_notifier_call_chain(head, UP, &calls) == NOTIFY_DONE);                                \
		CHECK(kind##_notifier_chain_register(head, &a.nb) == 0 && kind##_notifier_chain_register(head, &b.nb) == 0); \
		CHECK(kind##_notifier_chain_register(head, &c.nb) == 0 && kind##_notifier_chain_register(head, &a.nb) == -EEXIST); \
		calls = 0;                                                                                         \
		CHECK(kind##_notifier_call_chain(head, UP, &calls) == NOTIFY_OK && calls == 213);                  \
		a.answer = NOTIFY_BAD;                                                                             \
		calls = 0;                                                                                         \
		CHECK(kind##_notifier_call_chain(head, UP, &calls) == NOTIFY_BAD && calls == 21);                  \
		calls = 0;                                                                                         \
		CHECK(kind##_notifier_call_chain_robust(head, UP, DOWN, &calls) == NOTIFY_BAD && calls == 216);    \
		a.answer = NOTIFY_DONE;                                                                            \
		calls = 0;                                                                                         \
		CHECK(kind##_notifier_call_chain_robust(head, UP, DOWN, &calls) == NOTIFY_OK && calls == 213);     \
		CHECK(kind##_notifier_chain_unregister(head, &a.nb) == 0 && kind##_notifier_chain_unregister(head, &a.nb) == -ENOENT); \
		calls = 0;                                                                                         \
		CHECK(kind##_notifier_call_chain(head, UP, &calls) == NOTIFY_OK && calls == 23);                   \
		CHECK(kind##_notifier_chain_unregister(head, &c.nb) == 0 && kind##_notifier_chain_unregister(head, &b.nb) == 0); \
	} while (0)

static ATOMIC_NOTIFIER_HEAD(atomic_chain);
static BLOCKING_NOTIFIER_HEAD(blocking_chain);
static RAW_NOTIFIER_HEAD(raw_chain);

static void orders(void)
{
	struct listener a = listener(1, 5, NOTIFY_OK), b = listener(2, 5, NOTIFY_OK);

	ORDERED(atomic, &atomic_chain);
	ORDERED(blocking, &blocking_chain);
	ORDERED(raw, &raw_chain);
	CHECK(atomic_notifier_chain_register_unique_prio(&atomic_chain, &a.nb) == 0 && !atomic_notifier_call_chain_is_empty(&atomic_chain));
	CHECK(atomic_notifier_chain_register_unique_prio(&atomic_chain, &b.nb) == -EBUSY);
	CHECK(atomic_notifier_chain_unregister(&atomic_chain, &a.nb) == 0 && atomic_notifier_call_chain_is_empty(&atomic_chain));
	CHECK(blocking_notifier_chain_register_unique_prio(&blocking_chain, &a.nb) == 0);
	CHECK(blocking_notifier_chain_register_unique_prio(&blocking_chain, &b.nb) == -EBUSY);
	CHECK(blocking_notifier_chain_unregister(&blocking_chain, &a.nb) == 0);
	CHECK(notifier_to_errno(notifier_from_errno(-EBUSY)) == -EBUSY && notifier_from_errno(-EBUSY) & NOTIFY_STOP_MASK);
	CHECK(notifier_from_errno(0) == NOTIFY_OK && notifier_to_errno(NOTIFY_STOP) == 0);
}

static atomic_t begun;

static int hear(struct notifier_block *nb, unsigned long action, void *data)
{
	struct listener *it = container_of(nb, struct listener, nb);

	CHECK(action == UP && !data && it->name == 42);
	return NOTIFY_OK;
}

static int call(void *arg)
{
	atomic_inc(&begun);
	while (!kthread_should_stop()) {
		atomic_notifier_call_chain(&atomic_chain, UP, NULL);
		blocking_notifier_call_chain(&blocking_chain, UP, NULL);
	}
	return *(int *)arg;
}

/* What was taken off is called no more, and its memory may go. */
static void come_and_go(void)
{
	struct task_struct *tasks[2];
	int i, result = 3;

	for (i = 0; i < 2; i++) {
		tasks[i] = kthread_run(call, &result, "call/%d", i);
		CHECK(!IS_ERR(tasks[i]));
	}
	CHECK_SOON(atomic_read(&begun) == 2);
	for (i = 0; i < 300; i++) {
		struct listener *a = kzalloc(sizeof(*a), GFP_KERNEL), *b = kzalloc(sizeof(*b), GFP_KERNEL);

		CHECK(a && b);
		a->name = b->name = 42;
		a->nb.notifier_call = b->nb.notifier_call = hear;
		a->nb.priority = i % 3;
		CHECK(atomic_notifier_chain_register(&atomic_chain, &a->nb) == 0 && blocking_notifier_chain_register(&blocking_chain, &b->nb) == 0);
		cond_resched();
		CHECK(atomic_notifier_chain_unregister(&atomic_chain, &a->nb) == 0 && blocking_notifier_chain_unregister(&blocking_chain, &b->nb) == 0);
		memset(a, 0xff, sizeof(*a));
		memset(b, 0xff, sizeof(*b));
		kfree(a);
		kfree(b);
	}
	for (i = 0; i < 2; i++)
		CHECK(kthread_stop(tasks[i]) == 3);
}

static int done;

static int changes(struct notifier_block *nb, unsigned long action, void *data)
{
	static struct listener other;

	CHECK(blocking_notifier_chain_unregister(&blocking_chain, nb) == -EDEADLK);
	CHECK(blocking_notifier_chain_register(&blocking_chain, &other.nb) == -EDEADLK);
	/* The same thread may call the chain again. */
	if (action == UP)
		CHECK(blocking_notifier_call_chain(&blocking_chain, DOWN, data) == NOTIFY_OK);
	return NOTIFY_OK;
}

static int exits(struct notifier_block *nb, unsigned long action, void *data)
{
	(void)nb;
	(void)action;
	(void)data;
	pthread_exit(NULL);
}

static void *calls_and_ends(void *which)
{
	switch (*(int *)which) {
	case 0:
		return blocking_notifier_call_chain(&blocking_chain, UP, NULL) ? which : NULL;
	case 1:
		return blocking_notifier_call_chain_robust(&blocking_chain, UP, DOWN, NULL) ? which : NULL;
	case 2:
		return atomic_notifier_call_chain(&atomic_chain, UP, NULL) ? which : NULL;
	default:
		return atomic_notifier_call_chain_robust(&atomic_chain, UP, DOWN, NULL) ? which : NULL;
	}
}

static void *calls_and_changes(void *arg)
{
	struct listener own = {.nb = {.notifier_call = changes}}, last = {.nb = {.notifier_call = exits}};
	struct listener of_atomic = last;
	pthread_t thread;
	int which;

	CHECK(blocking_notifier_chain_register(&blocking_chain, &own.nb) == 0);
	CHECK(blocking_notifier_call_chain(&blocking_chain, UP, NULL) == NOTIFY_OK);
	CHECK(blocking_notifier_chain_unregister(&blocking_chain, &own.nb) == 0);

	CHECK(blocking_notifier_chain_register(&blocking_chain, &last.nb) == 0);
	CHECK(atomic_notifier_chain_register(&atomic_chain, &of_atomic.nb) == 0);
	for (which = 0; which < 4; which++) {
		CHECK(!pthread_create(&thread, NULL, calls_and_ends, &which));
		pthread_join(thread, NULL);
	}
	CHECK(blocking_notifier_chain_unregister(&blocking_chain, &last.nb) == 0);
	CHECK(atomic_notifier_chain_unregister(&atomic_chain, &of_atomic.nb) == 0);
	__atomic_store_n(&done, 1, __ATOMIC_SEQ_CST);
	return arg;
}

/* A function that changes its own chain is told that it cannot; one that ends its thread holds up no other thread. */
static void from_functions_of_the_chain(void)
{
	pthread_t thread;

	CHECK(!pthread_create(&thread, NULL, calls_and_changes, NULL));
	CHECK_SOON(__atomic_load_n(&done, __ATOMIC_SEQ_CST));
	pthread_join(thread, NULL);
}

int main(void)
{
	orders();
	come_and_go();
	from_functions_of_the_chain();
	return 0;
}
