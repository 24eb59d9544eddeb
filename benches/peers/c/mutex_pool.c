/*
 * The classic pool: one mutex, one condition variable, a ring of items that grows. In two forms: the waker signals while it
 * holds the mutex, or after it has let go.
 */
#include "harness.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t not_empty = PTHREAD_COND_INITIALIZER;
static struct item **ring;
static size_t room, head, length;

static void *worker(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&lock);
    for (;;) {
        while (length == 0)
            pthread_cond_wait(&not_empty, &lock);
        struct item *item = ring[head];
        head = (head + 1) & (room - 1);
        length--;
        pthread_mutex_unlock(&lock);
        item_run(item);
        pthread_mutex_lock(&lock);
    }
    return NULL;
}

static void start(int workers)
{
    room = 1024;
    ring = malloc(room * sizeof *ring);
    if (!ring)
        fail("out of memory");
    for (int number = 0; number < workers; number++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, worker, NULL) != 0)
            fail("no thread for a worker");
        pthread_detach(thread);
    }
}

/* Under the lock. */
static void append_item(struct item *item)
{
    if (length == room) {
        struct item **larger = malloc(2 * room * sizeof *larger);
        if (!larger)
            fail("out of memory");
        for (size_t index = 0; index < length; index++)
            larger[index] = ring[(head + index) & (room - 1)];
        free(ring);
        ring = larger;
        head = 0;
        room *= 2;
    }
    ring[(head + length) & (room - 1)] = item;
    length++;
}

static void submit_signal_under_lock(struct item *item)
{
    pthread_mutex_lock(&lock);
    append_item(item);
    pthread_cond_signal(&not_empty);
    pthread_mutex_unlock(&lock);
}

static void submit_signal_after(struct item *item)
{
    pthread_mutex_lock(&lock);
    append_item(item);
    pthread_mutex_unlock(&lock);
    pthread_cond_signal(&not_empty);
}

static const char *const rows[] = {"roundtrip", "semaphore", "flood", "semaphore", "window", "count",
                                   "idle", "start", "block", "count", "hogged", "start", NULL};

int main(int argc, char **argv)
{
    static const struct ops under = {.peer = "mutex-under-lock", .rows = rows, .start = start,
                                     .submit = submit_signal_under_lock};
    static const struct ops after = {.peer = "mutex-after-lock", .rows = rows, .start = start,
                                     .submit = submit_signal_after};
    static const struct ops *const peers[] = {&under, &after, NULL};
    return peer_main(argc, argv, peers);
}
