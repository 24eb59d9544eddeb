/*
 * moodycamel's queue (concurrentqueue), the one that blocks, and threads that take items from it, several at once.
 */
#undef PEER_VERSION
#define PEER_VERSION "concurrentqueue"
#include "harness.h"
#include <concurrentqueue/blockingconcurrentqueue.h>

namespace {

using queue_type = moodycamel::BlockingConcurrentQueue<struct item *>;

const size_t TAKEN_AT_ONCE = 64;
queue_type *queue;
thread_local moodycamel::ProducerToken *producer;

void *worker(void *)
{
    moodycamel::ConsumerToken consumer(*queue);
    struct item *items[TAKEN_AT_ONCE];
    for (;;) {
        size_t count = queue->wait_dequeue_bulk(consumer, items, TAKEN_AT_ONCE);
        for (size_t index = 0; index < count; index++)
            item_run(items[index]);
    }
}

void start(int workers)
{
    queue = new queue_type;
    for (int number = 0; number < workers; number++) {
        pthread_t thread;
        if (pthread_create(&thread, nullptr, worker, nullptr) != 0)
            fail("no thread for a worker");
        pthread_detach(thread);
    }
}

void begin()
{
    producer = new moodycamel::ProducerToken(*queue);
}

void end()
{
    delete producer;
}

void submit(struct item *item)
{
    if (!queue->enqueue(*producer, item))
        fail("out of memory");
}

void submit_all(struct item *const *items, size_t count)
{
    if (!queue->enqueue_bulk(*producer, items, count))
        fail("out of memory");
}

} // namespace

int main(int argc, char **argv)
{
    static const char *const rows[] = {"flood", "semaphore", "batch-1", "semaphore", "batch-10", "semaphore",
                                       "batch-100", "semaphore", nullptr};
    static const struct ops camel = {"moodycamel", rows, start, begin, end, submit, submit_all, nullptr, nullptr, nullptr, nullptr, nullptr};
    static const struct ops *const peers[] = {&camel, nullptr};
    return peer_main(argc, argv, peers);
}
