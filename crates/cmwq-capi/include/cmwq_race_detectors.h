/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * For programs that are compiled with ThreadSanitizer, or with -DCMWQ_VALGRIND to be run under
 * helgrind or drd; <cmwq.h> includes it. None of these tools sees into the library, so this
 * header tells them what the library orders: queueing before the function, the function before the
 * threads that wait for it, a completion's signal before its wait, a post to a completion queue
 * before the entry is drained, an RCU read-side section before the end of the grace period that
 * waited for it.
 */
#ifndef CMWQ_RACE_DETECTORS_H
#define CMWQ_RACE_DETECTORS_H

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

#ifdef CMWQ_VALGRIND
#include <valgrind/helgrind.h>
/* helgrind.h and drd.h define macros of the same names. */
#undef ANNOTATE_HAPPENS_BEFORE
#undef ANNOTATE_HAPPENS_AFTER
#include <valgrind/drd.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif
#ifdef CMWQ_TSAN
extern void __tsan_acquire(void *address);
extern void __tsan_release(void *address);

/*
 * The sanitizer does not check calls of malloc(), memcpy() and the like that the library itself
 * makes, since it does not see what orders them. It does check what the program does with its
 * memory. A program that has __tsan_default_suppressions() of its own adds this line to them, and
 * defines CMWQ_OWN_SUPPRESSIONS.
 */
#define CMWQ_TOLD_SUPPRESSION "called_from_lib:libcmwq.so"
#ifndef CMWQ_OWN_SUPPRESSIONS
#ifdef __clang__
/*
 * With a weak definition clang would take the weak one of its runtime, which it links first. This
 * definition is not weak, and the linker keeps one of it for the program.
 */
__asm__(".pushsection "
	".text.cmwq_told_suppressions,\"axG\",%progbits,cmwq_told_suppressions,comdat\n"
	".globl __tsan_default_suppressions\n"
	".type __tsan_default_suppressions,%function\n"
	"__tsan_default_suppressions:\n"
#ifdef __aarch64__
	"adr x0, 1f\n"
	"ret\n"
#else
	"leaq 1f(%rip), %rax\n"
	"retq\n"
#endif
	"1: .asciz \"" CMWQ_TOLD_SUPPRESSION "\\n\"\n"
	".balign 8\n"
	".size __tsan_default_suppressions, . - __tsan_default_suppressions\n"
	".popsection\n");
#else
__attribute__((__weak__, __visibility__("default"))) const char *__tsan_default_suppressions(void);
__attribute__((__weak__, __visibility__("default"))) const char *__tsan_default_suppressions(void)
{
	return CMWQ_TOLD_SUPPRESSION "\n";
}
#endif
#endif
#endif

/*
 * A place of this table stands for the items of a workqueue that have ended. The program has one
 * table; workqueues may share a place.
 */
__attribute__((__weak__)) char cmwq_told_places[1024];
/*
 * A place of this table stands for the end of an item's run, by the item's address. The address
 * itself cannot: another thread may free the item while its function returns, and this header must
 * not name memory to the sanitizer that is being freed. Items may share a place.
 */
__attribute__((__weak__)) char cmwq_told_runs[65536];
#ifdef __cplusplus
}
#endif

#ifdef CMWQ_VALGRIND
#ifdef __cplusplus
extern "C" {
#endif
/*
 * Whether drd runs the program. Both tools know the same requests by the same numbers, so the
 * header makes each request once.
 */
__attribute__((__weak__)) int cmwq_told_is_drd;
#ifdef __cplusplus
}
#endif

/*
 * drd keeps each thread's segments until its next release at the same address, and compares all of
 * them at each release: so this function gives it 64 addresses, and gives helgrind each item's own.
 */
static inline void *cmwq_told_so(const volatile void *address)
{
	if (cmwq_told_is_drd)
		return &cmwq_told_runs[((uint64_t)(uintptr_t)address * 0x9e3779b97f4a7c15u >> 32) %
			64];
	return (void *)(uintptr_t)address;
}
#endif

static inline void cmwq_told_acquire(const volatile void *address)
{
#ifdef CMWQ_TSAN
	__tsan_acquire((void *)(uintptr_t)address);
#endif
#ifdef CMWQ_VALGRIND
	DO_CREQ_v_W(_VG_USERREQ__HG_USERSO_RECV_POST, void *, cmwq_told_so(address));
#endif
}

static inline void cmwq_told_release(const volatile void *address)
{
#ifdef CMWQ_TSAN
	__tsan_release((void *)(uintptr_t)address);
#endif
#ifdef CMWQ_VALGRIND
	DO_CREQ_v_W(_VG_USERREQ__HG_USERSO_SEND_PRE, void *, cmwq_told_so(address));
#endif
}

/*
 * The same for a place that several threads release and one acquires. helgrind keeps only the last
 * release, so a thread that releases acquires the releases before it first.
 */
static inline void cmwq_told_release_shared(const volatile void *address)
{
#ifdef CMWQ_VALGRIND
	DO_CREQ_v_W(_VG_USERREQ__HG_USERSO_RECV_POST, void *, cmwq_told_so(address));
#endif
	cmwq_told_release(address);
}

static inline char *cmwq_told_place(uint64_t queue)
{
	return &cmwq_told_places[(queue >> 7) % sizeof(cmwq_told_places)];
}

static inline char *cmwq_told_run_of(const volatile void *item)
{
	return &cmwq_told_runs[(((uint64_t)(uintptr_t)item >> 3) * 0x9e3779b97f4a7c15u >> 32) %
		sizeof(cmwq_told_runs)];
}

/*
 * The item's own fields belong to the library. Any of its threads may have read them without
 * running the item, and so without a word to valgrind's tools, which therefore do not check them
 * until the program frees the memory.
 */
static inline void cmwq_told_fields(const volatile void *item)
{
#ifdef CMWQ_VALGRIND
	DO_CREQ_v_WW(_VG_USERREQ__HG_ARANGE_MAKE_UNTRACKED, void *, item, unsigned long,
		sizeof(struct cmwq_work));
	VALGRIND_DO_CLIENT_REQUEST_STMT(VG_USERREQ__DRD_START_SUPPRESSION, item,
		sizeof(struct cmwq_work), 0, 0, 0);
#else
	(void)item;
#endif
}

static inline void cmwq_told_begin(const void *item, uintptr_t queue)
{
	cmwq_told_fields(item);
	/* The workqueue is ordered: the items before this one have ended. */
	if (queue & 1)
		cmwq_told_acquire(cmwq_told_place(queue));
	cmwq_told_acquire(item);
	/* The item's run before this one has ended. */
	cmwq_told_acquire(cmwq_told_run_of(item));
}

static inline void cmwq_told_end(const void *item, uintptr_t queue)
{
	cmwq_told_release_shared(cmwq_told_run_of(item));
	cmwq_told_release_shared(cmwq_told_place(queue));
}

/*
 * Called by a thread that has waited for an item, or has taken it back: the thread sees what ran,
 * and what the threads that queued the item did before.
 */
static inline void cmwq_told_waited(const volatile void *item)
{
	cmwq_told_fields(item);
	cmwq_told_acquire(cmwq_told_run_of(item));
	cmwq_told_acquire(item);
}

/* Every file of the program asks for the same hooks; the library takes those of the first file. */
__attribute__((__constructor__)) static void cmwq_told_start(void)
{
#ifdef CMWQ_VALGRIND
	if (!cmwq_told_is_drd && DRD_GET_VALGRIND_THREADID)
		cmwq_told_is_drd = 1;
#endif
	/* Another file of the program may have come first: then the library has taken its hooks. */
	int refused = cmwq_set_run_hooks(cmwq_told_begin, cmwq_told_end);
	(void)refused;
}

static inline bool cmwq_told_queue_work(struct cmwq_workqueue *wq, struct cmwq_work *work)
{
	cmwq_told_release(work);
	return cmwq_queue_work(wq, work);
}

static inline bool cmwq_told_queue_work_on(int cpu, struct cmwq_workqueue *wq,
	struct cmwq_work *work)
{
	cmwq_told_release(work);
	return cmwq_queue_work_on(cpu, wq, work);
}

static inline bool cmwq_told_queue_work_node(int node, struct cmwq_workqueue *wq,
	struct cmwq_work *work)
{
	cmwq_told_release(work);
	return cmwq_queue_work_node(node, wq, work);
}

static inline bool cmwq_told_enable_and_queue_work(struct cmwq_workqueue *wq,
	struct cmwq_work *work)
{
	cmwq_told_release(work);
	return cmwq_enable_and_queue_work(wq, work);
}

static inline bool cmwq_told_queue_delayed_work_ns(struct cmwq_workqueue *wq,
	struct cmwq_delayed_work *dwork, uint64_t delay_ns)
{
	cmwq_told_release(dwork);
	return cmwq_queue_delayed_work_ns(wq, dwork, delay_ns);
}

static inline bool cmwq_told_queue_delayed_work_on_ns(int cpu, struct cmwq_workqueue *wq,
	struct cmwq_delayed_work *dwork, uint64_t delay_ns)
{
	cmwq_told_release(dwork);
	return cmwq_queue_delayed_work_on_ns(cpu, wq, dwork, delay_ns);
}

static inline bool cmwq_told_mod_delayed_work_ns(struct cmwq_workqueue *wq,
	struct cmwq_delayed_work *dwork, uint64_t delay_ns)
{
	cmwq_told_release(dwork);
	return cmwq_mod_delayed_work_ns(wq, dwork, delay_ns);
}

static inline bool cmwq_told_mod_delayed_work_on_ns(int cpu, struct cmwq_workqueue *wq,
	struct cmwq_delayed_work *dwork, uint64_t delay_ns)
{
	cmwq_told_release(dwork);
	return cmwq_mod_delayed_work_on_ns(cpu, wq, dwork, delay_ns);
}

static inline bool cmwq_told_mod_delayed_work_if_ns(int which, int cpu, struct cmwq_workqueue *wq,
	struct cmwq_delayed_work *dwork, uint64_t delay_ns, unsigned long *noted,
	unsigned long value)
{
	cmwq_told_release(dwork);
	return cmwq_mod_delayed_work_if_ns(which, cpu, wq, dwork, delay_ns, noted, value);
}

static inline int cmwq_told_try_queue_work(struct cmwq_workqueue *wq, struct cmwq_work *work)
{
	cmwq_told_release(work);
	return cmwq_try_queue_work(wq, work);
}

static inline int cmwq_told_queue_work_wait_ns(struct cmwq_workqueue *wq, struct cmwq_work *work,
	uint64_t timeout_ns)
{
	cmwq_told_release(work);
	return cmwq_queue_work_wait_ns(wq, work, timeout_ns);
}

static inline int cmwq_told_try_queue_delayed_work_ns(struct cmwq_workqueue *wq,
	struct cmwq_delayed_work *dwork, uint64_t delay_ns)
{
	cmwq_told_release(dwork);
	return cmwq_try_queue_delayed_work_ns(wq, dwork, delay_ns);
}

static inline int cmwq_told_try_mod_delayed_work_ns(struct cmwq_workqueue *wq,
	struct cmwq_delayed_work *dwork, uint64_t delay_ns)
{
	cmwq_told_release(dwork);
	return cmwq_try_mod_delayed_work_ns(wq, dwork, delay_ns);
}

static inline void cmwq_told_complete(struct cmwq_completion *done)
{
	cmwq_told_release(done);
	cmwq_complete(done);
}

static inline void cmwq_told_complete_all(struct cmwq_completion *done)
{
	cmwq_told_release(done);
	cmwq_complete_all(done);
}

static inline bool cmwq_told_flush_work(struct cmwq_work *work)
{
	bool result = cmwq_flush_work(work);

	cmwq_told_waited(work);
	return result;
}

static inline bool cmwq_told_flush_work_as_kernel(struct cmwq_work *work)
{
	bool result = cmwq_flush_work_as_kernel(work);

	cmwq_told_waited(work);
	return result;
}

/*
 * The caller acquires also when the time is over, since it may have seen what ran before the wait.
 */
static inline int cmwq_told_flush_work_timeout_ns(struct cmwq_work *work, uint64_t timeout_ns)
{
	int result = cmwq_flush_work_timeout_ns(work, timeout_ns);

	cmwq_told_waited(work);
	return result;
}

static inline int cmwq_told_flush_delayed_work_timeout_ns(struct cmwq_delayed_work *dwork,
	uint64_t timeout_ns)
{
	int result = cmwq_flush_delayed_work_timeout_ns(dwork, timeout_ns);

	cmwq_told_waited(dwork);
	return result;
}

static inline bool cmwq_told_cancel_work(struct cmwq_work *work)
{
	bool result = cmwq_cancel_work(work);

	cmwq_told_waited(work);
	return result;
}

static inline bool cmwq_told_cancel_work_sync(struct cmwq_work *work)
{
	bool result = cmwq_cancel_work_sync(work);

	cmwq_told_waited(work);
	return result;
}

static inline bool cmwq_told_disable_work(struct cmwq_work *work)
{
	bool result = cmwq_disable_work(work);

	cmwq_told_waited(work);
	return result;
}

static inline bool cmwq_told_disable_work_sync(struct cmwq_work *work)
{
	bool result = cmwq_disable_work_sync(work);

	cmwq_told_waited(work);
	return result;
}

static inline bool cmwq_told_flush_delayed_work(struct cmwq_delayed_work *dwork)
{
	bool result = cmwq_flush_delayed_work(dwork);

	cmwq_told_waited(dwork);
	return result;
}

static inline bool cmwq_told_flush_delayed_work_as_kernel(struct cmwq_delayed_work *dwork)
{
	bool result = cmwq_flush_delayed_work_as_kernel(dwork);

	cmwq_told_waited(dwork);
	return result;
}

static inline bool cmwq_told_cancel_delayed_work(struct cmwq_delayed_work *dwork)
{
	bool result = cmwq_cancel_delayed_work(dwork);

	cmwq_told_waited(dwork);
	return result;
}

static inline bool cmwq_told_cancel_delayed_work_sync(struct cmwq_delayed_work *dwork)
{
	bool result = cmwq_cancel_delayed_work_sync(dwork);

	cmwq_told_waited(dwork);
	return result;
}

static inline bool cmwq_told_disable_delayed_work(struct cmwq_delayed_work *dwork)
{
	bool result = cmwq_disable_delayed_work(dwork);

	cmwq_told_waited(dwork);
	return result;
}

static inline bool cmwq_told_disable_delayed_work_sync(struct cmwq_delayed_work *dwork)
{
	bool result = cmwq_disable_delayed_work_sync(dwork);

	cmwq_told_waited(dwork);
	return result;
}

static inline bool cmwq_told_wait_for_completion_timeout_ns(struct cmwq_completion *done,
	uint64_t timeout_ns)
{
	bool result = cmwq_wait_for_completion_timeout_ns(done, timeout_ns);

	cmwq_told_acquire(done);
	return result;
}

static inline bool cmwq_told_try_wait_for_completion(struct cmwq_completion *done)
{
	bool result = cmwq_try_wait_for_completion(done);

	cmwq_told_acquire(done);
	return result;
}

static inline bool cmwq_told_completion_done(const struct cmwq_completion *done)
{
	bool result = cmwq_completion_done(done);

	cmwq_told_acquire(done);
	return result;
}

static inline void cmwq_told_wait_for_completion(struct cmwq_completion *done)
{
	cmwq_wait_for_completion(done);
	cmwq_told_acquire(done);
}

static inline int cmwq_told_flush_workqueue(struct cmwq_workqueue *wq)
{
	uint64_t queue = wq ? cmwq_workqueue_id(wq) : 0;
	int result = cmwq_flush_workqueue(wq);

	cmwq_told_acquire(cmwq_told_place(queue));
	return result;
}

static inline int cmwq_told_drain_workqueue(struct cmwq_workqueue *wq)
{
	uint64_t queue = wq ? cmwq_workqueue_id(wq) : 0;
	int result = cmwq_drain_workqueue(wq);

	cmwq_told_acquire(cmwq_told_place(queue));
	return result;
}

static inline int cmwq_told_destroy_workqueue(struct cmwq_workqueue *wq)
{
	uint64_t queue = wq ? cmwq_workqueue_id(wq) : 0;
	int result = cmwq_destroy_workqueue(wq);

	cmwq_told_acquire(cmwq_told_place(queue));
	return result;
}

CMWQ_MUST_CHECK static inline int cmwq_told_flush_workqueue_timeout_ns(struct cmwq_workqueue *wq,
	uint64_t timeout_ns)
{
	uint64_t queue = wq ? cmwq_workqueue_id(wq) : 0;
	int result = cmwq_flush_workqueue_timeout_ns(wq, timeout_ns);

	if (result == 0)
		cmwq_told_acquire(cmwq_told_place(queue));
	return result;
}

CMWQ_MUST_CHECK static inline int cmwq_told_drain_workqueue_timeout_ns(struct cmwq_workqueue *wq,
	uint64_t timeout_ns)
{
	uint64_t queue = wq ? cmwq_workqueue_id(wq) : 0;
	int result = cmwq_drain_workqueue_timeout_ns(wq, timeout_ns);

	if (result == 0)
		cmwq_told_acquire(cmwq_told_place(queue));
	return result;
}

CMWQ_MUST_CHECK static inline int cmwq_told_destroy_workqueue_timeout_ns(struct cmwq_workqueue *wq,
	uint64_t timeout_ns)
{
	uint64_t queue = wq ? cmwq_workqueue_id(wq) : 0;
	int result = cmwq_destroy_workqueue_timeout_ns(wq, timeout_ns);

	if (result == 0)
		cmwq_told_acquire(cmwq_told_place(queue));
	return result;
}

#define cmwq_try_queue_work(wq, work) cmwq_told_try_queue_work((wq), (work))
#define cmwq_queue_work_wait_ns(wq, work, timeout_ns) \
	cmwq_told_queue_work_wait_ns((wq), (work), (timeout_ns))
#define cmwq_try_queue_delayed_work_ns(wq, dwork, delay_ns) \
	cmwq_told_try_queue_delayed_work_ns((wq), (dwork), (delay_ns))
#define cmwq_try_mod_delayed_work_ns(wq, dwork, delay_ns) \
	cmwq_told_try_mod_delayed_work_ns((wq), (dwork), (delay_ns))
#define cmwq_flush_work_timeout_ns(work, timeout_ns) \
	cmwq_told_flush_work_timeout_ns((work), (timeout_ns))
#define cmwq_flush_delayed_work_timeout_ns(dwork, timeout_ns) \
	cmwq_told_flush_delayed_work_timeout_ns((dwork), (timeout_ns))
#define cmwq_queue_work(wq, work) cmwq_told_queue_work((wq), (work))
#define cmwq_queue_work_on(cpu, wq, work) cmwq_told_queue_work_on((cpu), (wq), (work))
#define cmwq_queue_work_node(node, wq, work) cmwq_told_queue_work_node((node), (wq), (work))
#define cmwq_enable_and_queue_work(wq, work) cmwq_told_enable_and_queue_work((wq), (work))
#define cmwq_queue_delayed_work_ns(wq, dwork, delay_ns) \
	cmwq_told_queue_delayed_work_ns((wq), (dwork), (delay_ns))
#define cmwq_queue_delayed_work_on_ns(cpu, wq, dwork, delay_ns) \
	cmwq_told_queue_delayed_work_on_ns((cpu), (wq), (dwork), (delay_ns))
#define cmwq_mod_delayed_work_ns(wq, dwork, delay_ns) \
	cmwq_told_mod_delayed_work_ns((wq), (dwork), (delay_ns))
#define cmwq_mod_delayed_work_on_ns(cpu, wq, dwork, delay_ns) \
	cmwq_told_mod_delayed_work_on_ns((cpu), (wq), (dwork), (delay_ns))
#define cmwq_mod_delayed_work_if_ns(which, cpu, wq, dwork, delay_ns, noted, value)           \
	cmwq_told_mod_delayed_work_if_ns((which), (cpu), (wq), (dwork), (delay_ns), (noted), \
		(value))
#define cmwq_complete(done) cmwq_told_complete((done))
#define cmwq_complete_all(done) cmwq_told_complete_all((done))
#define cmwq_flush_work(work) cmwq_told_flush_work((work))
#define cmwq_flush_work_as_kernel(work) cmwq_told_flush_work_as_kernel((work))
#define cmwq_cancel_work(work) cmwq_told_cancel_work((work))
#define cmwq_cancel_work_sync(work) cmwq_told_cancel_work_sync((work))
#define cmwq_disable_work(work) cmwq_told_disable_work((work))
#define cmwq_disable_work_sync(work) cmwq_told_disable_work_sync((work))
#define cmwq_flush_delayed_work(dwork) cmwq_told_flush_delayed_work((dwork))
#define cmwq_flush_delayed_work_as_kernel(dwork) cmwq_told_flush_delayed_work_as_kernel((dwork))
#define cmwq_cancel_delayed_work(dwork) cmwq_told_cancel_delayed_work((dwork))
#define cmwq_cancel_delayed_work_sync(dwork) cmwq_told_cancel_delayed_work_sync((dwork))
#define cmwq_disable_delayed_work(dwork) cmwq_told_disable_delayed_work((dwork))
#define cmwq_disable_delayed_work_sync(dwork) cmwq_told_disable_delayed_work_sync((dwork))
#define cmwq_wait_for_completion_timeout_ns(done, timeout_ns) \
	cmwq_told_wait_for_completion_timeout_ns((done), (timeout_ns))
#define cmwq_try_wait_for_completion(done) cmwq_told_try_wait_for_completion((done))
#define cmwq_completion_done(done) cmwq_told_completion_done((done))
#define cmwq_wait_for_completion(done) cmwq_told_wait_for_completion((done))
#define cmwq_flush_workqueue(wq) cmwq_told_flush_workqueue((wq))
#define cmwq_drain_workqueue(wq) cmwq_told_drain_workqueue((wq))
#define cmwq_destroy_workqueue(wq) cmwq_told_destroy_workqueue((wq))
#define cmwq_flush_workqueue_timeout_ns(wq, timeout_ns) \
	cmwq_told_flush_workqueue_timeout_ns((wq), (timeout_ns))
#define cmwq_drain_workqueue_timeout_ns(wq, timeout_ns) \
	cmwq_told_drain_workqueue_timeout_ns((wq), (timeout_ns))
#define cmwq_destroy_workqueue_timeout_ns(wq, timeout_ns) \
	cmwq_told_destroy_workqueue_timeout_ns((wq), (timeout_ns))

#include "cmwq_race_detectors_others.h"

#endif
