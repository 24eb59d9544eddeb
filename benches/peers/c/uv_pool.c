/*
 * libuv's thread pool, with its default of 4 threads. Each issuer has a loop of its own; what has run is told there, and several
 * with one wake-up.
 */
#include "harness.h"
#include <uv.h>

_Static_assert(sizeof(uv_work_t) <= sizeof(((struct item *)0)->pool_data), "a request must fit into an item");

static __thread uv_loop_t loop;

static void work(uv_work_t *request)
{
    item_run((struct item *)request);
}

static void after_work(uv_work_t *request, int status)
{
    (void)status;
    item_told((struct item *)request);
}

static void submit(struct item *item)
{
    /* The request is the item's first member. */
    if (uv_queue_work(&loop, (uv_work_t *)item, work, after_work) != 0)
        fail("uv_queue_work");
}

static void wait_once(void)
{
    uv_run(&loop, UV_RUN_ONCE);
}

static void begin(void)
{
    if (uv_loop_init(&loop) != 0)
        fail("uv_loop_init");
}

static void end(void)
{
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_loop_close(&loop);
}

static void nothing(uv_work_t *request)
{
    (void)request;
}

/* Its threads start with the first item: here, where all CPUs are allowed. */
static void start(int workers)
{
    (void)workers;
    uv_work_t first;
    begin();
    uv_queue_work(&loop, &first, nothing, NULL);
    end();
    flood_item_each = 1;
}

int main(int argc, char **argv)
{
    /* Its loop waits in epoll_wait: `window` and `epoll` are one. */
    static const char *const rows[] = {"roundtrip", "callback", "flood", "callback", "window", "callback", "epoll", "callback",
                                       "idle", "start", "block", "callback", "hogged", "start", NULL};
    static const struct ops uv = {.peer = "libuv", .rows = rows, .start = start, .issuer_begin = begin,
                                  .issuer_end = end, .submit = submit, .wait = wait_once};
    static const struct ops *const peers[] = {&uv, NULL};
    return peer_main(argc, argv, peers);
}
