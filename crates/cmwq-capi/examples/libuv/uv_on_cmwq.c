/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * libuv's work queue on cmwq, for programs that link libuv statically: uv_queue_work(), and with it libuv's own file system calls, name
 * look-ups and random numbers, run on cmwq's workers instead of on the threads of libuv's threadpool.c. Compile this file with the program:
 *
 *     cc program.c uv_on_cmwq.c $(pkg-config --cflags --libs cmwq) -l:libuv_a.a -ldl -lpthread -o program
 *
 * It defines all that the rest of libuv takes from threadpool.c, so that the linker leaves that one out. Three of the names are private to
 * libuv and have had these meanings in every libuv 1.x since 1.30; another version may end that, which the linker or the types would
 * tell. Everything else here is from libuv's installed headers.
 *
 * UV_THREADPOOL_SIZE, if it is set, limits how many requests have begun and not ended, as it does in libuv; name look-ups take half of it
 * at most. Otherwise there is no such limit, and as many threads as cmwq finds right.
 *
 * A program that has libuv as a shared library, such as a distribution's node, has threadpool.c inside that: it takes a libuv.so.1 that is
 * built with this file in the place of threadpool.c, as `scripts/node build` does. uv_metrics_info() counts the callbacks of one wake-up
 * as one.
 */
#include <cmwq.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

enum uv__work_kind { UV__WORK_CPU, UV__WORK_FAST_IO, UV__WORK_SLOW_IO };

void uv__work_submit(uv_loop_t *loop, struct uv__work *w, enum uv__work_kind kind, void (*work)(struct uv__work *),
		     void (*done)(struct uv__work *, int));
void uv__work_done(uv_async_t *handle);
void uv__threadpool_cleanup(void);

/* In newer ones alone: what uv_cancel() does that no work queue is asked for. */
int uv__write_cancel(uv_write_t *request) __attribute__((weak));
int uv__iou_cancel(uv_loop_t *loop, uv_fs_t *request) __attribute__((weak));

#define MEMBER_OF(pointer, type, member) ((type *)(void *)((char *)(pointer) - offsetof(type, member)))

/*
 * One for each request, from uv__work_submit() until its callback is about to be called; the request points to it. `next` and `prev` are
 * those of a ring whose head is the loop's `wq`, which libuv has made empty and wants to be empty at the end: what has run and was not
 * called back. The ring belongs to the loop's wq_mutex.
 */
struct link {
	struct link *next, *prev;
};

struct item {
	struct link link;
	struct cmwq_work work;
	struct uv__work *request;
	int status;
};

/* ---- the workqueues ---- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct cmwq_workqueue *_Atomic usual, *_Atomic slow;

/* In a child process they are its parent's. */
static void forget_queues(void)
{
	usual = slow = NULL;
	pthread_mutex_init(&mutex, NULL);
}

static struct cmwq_workqueue *built(const char *name, int limit, struct cmwq_group *both)
{
	struct cmwq_thread_attrs attrs = CMWQ_THREAD_ATTRS_INIT;
	struct cmwq_workqueue_options options = CMWQ_WORKQUEUE_OPTIONS_INIT;
	static struct cmwq_threads *threads;
	struct cmwq_workqueue *wq;

	/* As libuv calls them. */
	attrs.name_format = "libuv-worker";
	if (!threads)
		threads = cmwq_alloc_threads(&attrs);
	options.threads = threads;
	options.group = both;
	wq = cmwq_alloc_workqueue_with(name, CMWQ_WQ_UNBOUND, limit, &options);
	if (!wq)
		abort();
	return wq;
}

static void build_queues(void)
{
	static int knows_forks;
	const char *size = getenv("UV_THREADPOOL_SIZE");
	struct cmwq_group *both = NULL;
	int limit = 0;

	pthread_mutex_lock(&mutex);
	if (!usual) {
		if (size) {
			limit = atoi(size) > 0 ? atoi(size) : 1;
			both = cmwq_alloc_group("uv", limit);
		}
		if (!knows_forks && pthread_atfork(NULL, NULL, forget_queues))
			abort();
		knows_forks = 1;
		/* With CMWQ_CONTROL=1 `cmwq top` sees this program, without a change to it. */
		cmwq_serve_control_if_asked();
		slow = built("uv-slow", (limit + 1) / 2, both);
		usual = built("uv", limit, both);
		/* The workqueues keep what they need of it. */
		cmwq_free_group(both);
	}
	pthread_mutex_unlock(&mutex);
}

/* When libuv is shut down. */
void uv__threadpool_cleanup(void)
{
	if (usual) {
		cmwq_destroy_workqueue(usual);
		cmwq_destroy_workqueue(slow);
		usual = slow = NULL;
	}
}

/* ---- requests ---- */

/* The loop is to call back: the item is not touched any more by the caller. */
static void answer(struct item *item, int status)
{
	uv_loop_t *loop = item->request->loop;
	struct link *head = (struct link *)(void *)&loop->wq;

	uv_mutex_lock(&loop->wq_mutex);
	item->status = status;
	item->link.next = head;
	item->link.prev = head->prev;
	head->prev->next = &item->link;
	head->prev = &item->link;
	/* Under the mutex: the loop may be closed once it has called back. */
	uv_async_send(&loop->wq_async);
	uv_mutex_unlock(&loop->wq_mutex);
}

static void run(struct cmwq_work *work)
{
	struct item *item = MEMBER_OF(work, struct item, work);

	item->request->work(item->request);
	answer(item, 0);
}

void uv__work_submit(uv_loop_t *loop, struct uv__work *w, enum uv__work_kind kind, void (*work)(struct uv__work *),
		     void (*done)(struct uv__work *, int))
{
	struct item *item = malloc(sizeof(*item));

	if (!item)
		abort();
	if (!usual)
		build_queues();
	w->loop = loop;
	w->work = work;
	w->done = done;
	/* Two pointers, of which libuv itself uses none here. */
	memcpy(&w->wq, &item, sizeof(item));
	item->request = w;
	cmwq_init_work(&item->work, run);
	if (!cmwq_queue_work(kind == UV__WORK_SLOW_IO ? slow : usual, &item->work))
		abort();
}

/* The loop's own callback: `wq_async` was made with it. */
void uv__work_done(uv_async_t *handle)
{
	uv_loop_t *loop = MEMBER_OF(handle, uv_loop_t, wq_async);
	struct link *head = (struct link *)(void *)&loop->wq, *link;

	uv_mutex_lock(&loop->wq_mutex);
	link = head->next;
	head->prev->next = NULL;
	head->next = head->prev = head;
	uv_mutex_unlock(&loop->wq_mutex);
	while (link && link != head) {
		struct item *item = MEMBER_OF(link, struct item, link);
		struct uv__work *request = item->request;
		int status = item->status;

		link = link->next;
		free(item);
		request->done(request, status);
	}
}

static void queued_work(struct uv__work *w)
{
	uv_work_t *request = MEMBER_OF(w, uv_work_t, work_req);

	request->work_cb(request);
}

static void queued_done(struct uv__work *w, int status)
{
	uv_work_t *request = MEMBER_OF(w, uv_work_t, work_req);

	request->loop->active_reqs.count--;
	if (request->after_work_cb)
		request->after_work_cb(request, status);
}

int uv_queue_work(uv_loop_t *loop, uv_work_t *request, uv_work_cb work, uv_after_work_cb after)
{
	if (!work)
		return UV_EINVAL;
	request->type = UV_WORK;
	loop->active_reqs.count++;
	request->loop = loop;
	request->work_cb = work;
	request->after_work_cb = after;
	uv__work_submit(loop, &request->work_req, UV__WORK_CPU, queued_work, queued_done);
	return 0;
}

int uv_cancel(uv_req_t *request)
{
	struct uv__work *w;
	struct item *item;

	switch (request->type) {
	case UV_WRITE: {
		uv_write_t *write = (uv_write_t *)(void *)request;

		if (!uv__write_cancel)
			return UV_EINVAL;
		return uv_is_closing((uv_handle_t *)write->handle) ? UV_EBUSY : uv__write_cancel(write);
	}
	case UV_FS: {
		uv_fs_t *fs = (uv_fs_t *)(void *)request;

		w = &fs->work_req;
		/* The kernel's io_uring has it. */
		if (!w->done)
			return uv__iou_cancel ? uv__iou_cancel(fs->loop, fs) : UV_EBUSY;
		break;
	}
	case UV_GETADDRINFO:
		w = &((uv_getaddrinfo_t *)(void *)request)->work_req;
		break;
	case UV_GETNAMEINFO:
		w = &((uv_getnameinfo_t *)(void *)request)->work_req;
		break;
	case UV_RANDOM:
		w = &((uv_random_t *)(void *)request)->work_req;
		break;
	case UV_WORK:
		w = &((uv_work_t *)(void *)request)->work_req;
		break;
	default:
		return UV_EINVAL;
	}
	memcpy(&item, &w->wq, sizeof(item));
	if (!cmwq_cancel_work(&item->work))
		return UV_EBUSY;
	answer(item, UV_ECANCELED);
	return 0;
}
