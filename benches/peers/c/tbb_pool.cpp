/*
 * oneTBB: enqueue to an arena with a worker for each CPU; and task_group, whose wait() runs tasks itself.
 */
#include "harness.h"
#include <functional>
#include <oneapi/tbb/blocked_range.h>
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/parallel_invoke.h>
#include <oneapi/tbb/parallel_reduce.h>
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

uint64_t sum(const uint64_t *values, size_t count)
{
    using range = tbb::blocked_range<size_t>;
    auto part = [values](const range &part, uint64_t sum) {
        for (size_t index = part.begin(); index != part.end(); index++)
            sum += element(values[index]);
        return sum;
    };
    return arena->execute([&] { return tbb::parallel_reduce(range(0, count), uint64_t{0}, part, std::plus<uint64_t>()); });
}

uint64_t tree(unsigned depth, uint64_t steps)
{
    if (depth == 0)
        return leaf(steps);
    uint64_t one = 0, other = 0;
    tbb::parallel_invoke([&] { one = tree(depth - 1, steps); }, [&] { other = tree(depth - 1, steps); });
    return one + other;
}

uint64_t leaves(unsigned depth, uint64_t steps)
{
    return arena->execute([=] { return tree(depth, steps); });
}

} // namespace

int main(int argc, char **argv)
{
    static const char *const rows[] = {"roundtrip", "semaphore", "roundtrip", "help", "flood", "semaphore",
                                       "window", "count", "idle", "start", "block", "count", "hogged", "start",
                                       "loop-1e5", "reduce", "loop-1e7", "reduce", "fork", "invoke", nullptr};
    static const struct ops tbb_ops = {"onetbb", rows, start, begin, end, enqueue, nullptr, spawn, join, nullptr, sum, leaves};
    static const struct ops *const peers[] = {&tbb_ops, nullptr};
    return peer_main(argc, argv, peers);
}
