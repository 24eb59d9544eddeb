/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Completion queues. Part of <cmwq.h>, which includes it. */
#ifndef CMWQ_H
#include "cmwq.h"
#elif !defined(CMWQ_CQ_H)
#define CMWQ_CQ_H

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Where items deliver results to a thread that waits in an event loop of its own. Entries are
 * posted by items and drained by the owner, in the order in which they were posted. Each thread
 * that sleeps until there are some is an owner, and has a handle of its own: see cmwq_cq_clone().
 * Posting makes no system call as long as the owner is awake or has not armed; the first post after
 * an arming makes the eventfd readable, where the pool has a backlog a little later (500 us; if all
 * workers are in longer items by then, some milliseconds). In a forked child an inherited queue is
 * closed: posting to it is -EPERM, and draining and waiting find nothing.
 *
 *	for (;;) {
 *		while ((n = cmwq_cq_drain(cq, entries, 64)) > 0)
 *			handle(entries, n);
 *		if (cmwq_cq_arm(cq))
 *			epoll_wait(epfd, events, ...);
 *	}
 */
struct cmwq_cq;

/* An entry: the token that the item was submitted or posted with, and its result. */
struct cmwq_cqe {
	uint64_t token;
	int64_t result;
};

enum cmwq_cq_flags {
	/* With an eventfd, see cmwq_cq_fd(). */
	CMWQ_CQ_EVENTFD = 1 << 0
};

/*
 * Makes one. `capacity`: how many entries may be submitted or posted and not drained; 0: any
 * number. NULL and errno: EINVAL (unknown flags), EMFILE and the like (no eventfd), ENOMEM (16384
 * have one).
 */
CMWQ_MUST_CHECK struct cmwq_cq *cmwq_cq_create(unsigned int flags, size_t capacity);
/* Another owner of the same queue, for another thread; to be destroyed like the first one. */
CMWQ_MUST_CHECK struct cmwq_cq *cmwq_cq_clone(struct cmwq_cq *cq);
/*
 * Lets go of it. The last owner's call drops what was not drained, and closes the eventfd. Items
 * that were submitted run all the same; no thread may post any more. NULL is allowed.
 */
void cmwq_cq_destroy(struct cmwq_cq *cq);
/*
 * The eventfd, for epoll, poll and the like, level-triggered or edge-triggered; it need not be
 * read. -EINVAL: it has none.
 */
CMWQ_MUST_CHECK int cmwq_cq_fd(struct cmwq_cq *cq);
/* Posts an entry. From any thread, with any owner's handle. 0, -ENOSPC: it is full. */
CMWQ_MUST_CHECK int cmwq_cq_post(struct cmwq_cq *cq, uint64_t token, int64_t result);
/*
 * Runs `fn(arg)` as an item of `wq`, and posts what it returns with `token`. No other memory is
 * needed. 0, -ENOSPC (full), -ESHUTDOWN (the workqueue is being drained or destroyed), or wrong
 * use: nothing will run then.
 */
CMWQ_MUST_CHECK int cmwq_cq_execute(struct cmwq_cq *cq, struct cmwq_workqueue *wq,
	int64_t (*fn)(void *arg), void *arg, uint64_t token);
/*
 * Takes up to `max` entries, oldest first; returns how many. Does not wait. This owner is not armed
 * afterwards.
 */
CMWQ_MUST_CHECK size_t cmwq_cq_drain(struct cmwq_cq *cq, struct cmwq_cqe entries[], size_t max);
/*
 * Has the eventfd made readable by the next entry that is posted, until this owner drains: to be
 * called each time before it sleeps. false: there is something to drain, and nothing was changed;
 * or it has no eventfd (errno EINVAL).
 */
CMWQ_MUST_CHECK bool cmwq_cq_arm(struct cmwq_cq *cq);
/*
 * As cmwq_cq_drain(), and waits for the first entry; in a work function another item runs
 * meanwhile. Needs no eventfd. 0, with a warning, if the wait would never end: in a function that
 * cmwq_cq_execute() was given for this queue, when it has no other such function and no clone.
 */
CMWQ_MUST_CHECK size_t cmwq_cq_wait(struct cmwq_cq *cq, struct cmwq_cqe entries[], size_t max);
/* The same, for `timeout_ns` nanoseconds at most. 0: there was nothing. */
CMWQ_MUST_CHECK size_t cmwq_cq_wait_timeout_ns(struct cmwq_cq *cq, struct cmwq_cqe entries[],
	size_t max, uint64_t timeout_ns);

#ifdef __cplusplus
}
#endif

#endif
