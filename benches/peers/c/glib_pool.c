/* GLib's thread pool: with a thread for each CPU, and, for items that block, with as many threads as it likes. */
#include "harness.h"
#include <glib.h>

static GThreadPool *pool;

static void run(gpointer data, gpointer unused)
{
    (void)unused;
    item_run(data);
}

static void open_pool(int threads, gboolean exclusive)
{
    GError *error = NULL;
    pool = g_thread_pool_new(run, NULL, threads, exclusive, &error);
    if (error)
        fail(error->message);
}

static void start_fixed(int workers)
{
    open_pool(workers, TRUE);
}

static void start_unlimited(int workers)
{
    (void)workers;
    open_pool(-1, FALSE);
}

static void submit(struct item *item)
{
    g_thread_pool_push(pool, item, NULL);
}

int main(int argc, char **argv)
{
    static const char *const rows[] = {"roundtrip", "semaphore", "flood", "semaphore", "window", "count",
                                       "idle", "start", "block", "count", "hogged", "start", NULL};
    static const char *const unlimited_rows[] = {"block", "count", "hogged", "start", NULL};
    static const struct ops fixed = {.peer = "glib", .rows = rows, .start = start_fixed, .submit = submit};
    static const struct ops unlimited = {.peer = "glib-unlimited", .rows = unlimited_rows, .start = start_unlimited,
                                         .submit = submit};
    static const struct ops *const peers[] = {&fixed, &unlimited, NULL};
    return peer_main(argc, argv, peers);
}
