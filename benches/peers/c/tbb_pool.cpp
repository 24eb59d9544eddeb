/*
 * oneTBB: enqueue to an arena with a worker for each CPU; and task_group, whose wait() runs tasks itself.
 */
#include "harness.h"
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/task_arena.h>
#include <oneapi/tbb/task_group.h>
#include <oneapi/tbb/task_scheduler_observer.h>

namespace {

/* Workers start when there is work: perhaps by a pinned issuer, whose mask they then have. */
struct Unpinner : tbb::task_scheduler_observer {
    Unpinner() { observe(true); }
    void on_scheduler_entry(bool is_worker) override
    {
        thread_local bool unpinned = false;
        if (is_worker && !unpinned) {
            unpin();
            unpinned = true;
        }
    }
};

tbb::task_arena *arena;
thread_local tbb::task_group *group;

void start(int workers)
{
    /* One more than workers: the limit counts the main thread. */
    new tbb::global_control(tbb::global_control::max_allowed_parallelism, static_cast<size_t>(workers) + 1);
    new Unpinner;
    arena = new tbb::task_arena(workers, 0);
    arena->initialize();
}

void enqueue(struct item *item)
{
    arena->enqueue([item] { item_run(item); });
}

void begin()
{
    group = new tbb::task_group;
}

void end()
{
    delete group;
}

void spawn(struct item *item)
{
    group->run([item] { item_run(item); });
}

void join(struct item *)
{
    group->wait();
}

} // namespace

int main(int argc, char **argv)
{
    static const char *const rows[] = {"roundtrip", "semaphore", "roundtrip", "help", "flood", "semaphore",
                                       "window", "count", "idle", "start", "block", "count", "hogged", "start", nullptr};
    static const struct ops tbb_ops = {"onetbb", rows, start, begin, end, enqueue, spawn, join, nullptr};
    static const struct ops *const peers[] = {&tbb_ops, nullptr};
    return peer_main(argc, argv, peers);
}
