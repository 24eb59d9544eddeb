// SPDX-License-Identifier: MIT OR Apache-2.0
// cmwq.hpp: what is run, what is thrown, what is freed. Ends with status 0 if all holds.
#include <cmwq.hpp>
#include "check.hpp"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>

// A second inclusion, as through other headers.
#include <cmwq.hpp>

namespace {

std::atomic<std::size_t> allocated{0};

} // namespace

// Sanitizers bring their own.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define COUNTS_ALLOCATIONS 0
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define COUNTS_ALLOCATIONS 0
#endif
#endif
#ifndef COUNTS_ALLOCATIONS
#define COUNTS_ALLOCATIONS 1
#endif

#if COUNTS_ALLOCATIONS
// Not inlined, or gcc thinks that they do not match.
__attribute__((noinline)) void *operator new(std::size_t size)
{
    allocated += size;
    if (void *memory = std::malloc(size))
        return memory;
    throw std::bad_alloc();
}
__attribute__((noinline)) void operator delete(void *memory) noexcept { std::free(memory); }
__attribute__((noinline)) void operator delete(void *memory, std::size_t) noexcept { std::free(memory); }
#endif

namespace {

// Counts what exists of it: no thread but the one that holds the only reference changes it.
struct counted {
    std::shared_ptr<std::atomic<int>> count;
    explicit counted(std::shared_ptr<std::atomic<int>> c) : count(std::move(c)) { ++*count; }
    counted(const counted &other) : count(other.count) { ++*count; }
    counted(counted &&other) : count(other.count) { ++*count; }
    ~counted() { --*count; }
};

int global = 7;
int &reference() { return global; }
int doubled(int number) { return 2 * number; }

void futures(cmwq::workqueue &queue)
{
    CHECK(queue.submit([] { return 6 * 7; }).get() == 42);
    CHECK(queue.submit(doubled, 21).get() == 42);
    CHECK(&queue.submit(reference).get() == &global);
    std::atomic<bool> ran{false};
    queue.submit([&] { ran = true; }).get();
    CHECK(ran);
    // What can only be moved, into the item and out of it.
    auto box = queue.submit([](std::unique_ptr<int> p) { return p; }, std::make_unique<int>(5)).get();
    CHECK(*box == 5);
    CHECK(queue.submit(&std::string::size, std::string("four")).get() == 4);
    auto broken = queue.submit([]() -> int { throw std::runtime_error("broken"); });
    try {
        broken.get();
        CHECK(false);
    } catch (const std::runtime_error &error) {
        CHECK(std::string(error.what()) == "broken");
    }
}

void nothing_is_leaked(cmwq::workqueue &queue)
{
    auto count = std::make_shared<std::atomic<int>>(0);
    for (int i = 0; i < 1000; i++) {
        counted c(count);
        queue.execute([c] { CHECK(*c.count > 0); });
        queue.submit([c] { return c; });
    }
    queue.flush();
    // A flushed item has returned; what it held is destroyed before that.
    CHECK(*count == 0);
}

// One item at a time, and at most two more that wait.
void bounds()
{
    cmwq::options options;
    options.max_active = 1;
    options.max_waiting = 2;
    auto queue = cmwq::workqueue::with("bounded", options);
    CHECK(queue.name() == "bounded");
    std::promise<void> begun, opened;
    auto opens = opened.get_future().share();
    queue.execute([&, opens] {
        begun.set_value();
        cmwq::blocking([&] { opens.wait(); });
    });
    begun.get_future().wait();
    std::atomic<int> ran{0};
    auto counts = [&] { return ++ran; };
    cmwq::work item([&] { ++ran; });
    CHECK(queue.try_execute(counts));
    auto submitted = queue.try_submit(counts);
    CHECK(submitted.has_value());
    // Full: each way says so, runs nothing, and frees what it was given.
    auto count = std::make_shared<std::atomic<int>>(0);
    counted c(count);
    CHECK(!queue.try_execute([c] {}) && !queue.try_submit([c] {}).has_value());
    CHECK(!queue.execute_within(std::chrono::milliseconds(1), [c] {}));
    CHECK(!queue.submit_within(std::chrono::milliseconds(1), [c] {}).has_value());
    CHECK(error_of([&] { queue.execute([c] {}); }) == ENOBUFS);
    CHECK(error_of([&] { queue.submit([c] {}); }) == ENOBUFS);
    CHECK(error_of([&] { queue.queue(item); }) == ENOBUFS);
    CHECK(*count == 1);
    CHECK(queue.try_queue(item) == cmwq::queued::full);
    CHECK(queue.queue_within(std::chrono::milliseconds(-1), item) == cmwq::queued::full);
    CHECK(item.flush_for(std::chrono::seconds(1)));
    // Room for one more, and a thread that waits for further room gets it.
    queue.set_max_waiting(3);
    CHECK(queue.try_queue(item) == cmwq::queued::accepted);
    CHECK(!item.flush_for(std::chrono::milliseconds(1)));
    std::thread waits([&] { CHECK(queue.submit_within(cmwq::forever, counts)->get() > 0); });
    opened.set_value();
    waits.join();
    CHECK(submitted->get() > 0);
    queue.flush();
    CHECK(ran == 4);
    auto own = queue.submit([&] { return error_of([&] { (void)queue.execute_within(cmwq::forever, [] {}); }); });
    CHECK(own.get() == EDEADLK);
    CHECK(error_of([] { cmwq::workqueue("unbounded").set_max_waiting(1); }) == EINVAL);
    item.disable();
    CHECK(queue.queue(item) == cmwq::queued::disabled);
    CHECK(item.enable() && queue.queue(item) == cmwq::queued::accepted && item.flush_for(cmwq::forever));
}

// Waits for a whole queue, and its end, up to a deadline.
void deadlines()
{
    using namespace std::chrono_literals;
    cmwq::workqueue queue("deadlines", CMWQ_WQ_UNBOUND, 1);
    std::promise<void> begun, go;
    queue.execute([&, released = go.get_future().share()] {
        begun.set_value();
        released.wait();
    });
    begun.get_future().wait();
    CHECK(!queue.flush_for(1ms) && !queue.drain_for(-1ms));
    // It is open again.
    queue.execute([] {});
    CHECK(!queue.end_within(1ms));
    CHECK(error_of([&] { queue.execute([] {}); }) == ESHUTDOWN);
    CHECK(queue.unfinished().find("1 running and 1 waiting") != std::string::npos);
    go.set_value();
    CHECK(queue.flush_for(cmwq::forever) && queue.drain_for(cmwq::forever));
    CHECK(queue.end_within(cmwq::forever) && queue.native_handle() == nullptr);
    CHECK(error_of([&] { (void)queue.flush_for(1ms); }) == EINVAL);
}

void refusals()
{
    cmwq::workqueue queue("refusals", CMWQ_WQ_UNBOUND, 1);
    CHECK(error_of([] { cmwq::workqueue bad("bad", 1U << 20); }) == EINVAL);
    CHECK(queue.submit([&] { return error_of([&] { queue.flush(); }); }).get() == EDEADLK);
    // While it is drained others are refused, and what they brought is freed.
    auto count = std::make_shared<std::atomic<int>>(0);
    std::promise<void> go;
    queue.execute([&, released = go.get_future().share()] { released.wait(); });
    std::thread drainer([&] { queue.drain(); });
    cmwq::work item([] {});
    int error = 0;
    // Cancelled each time: what is pending already is not refused.
    for (; error == 0; item.cancel())
        error = error_of([&] { queue.queue(item); });
    CHECK(error == ESHUTDOWN);
    CHECK(error_of([&] { queue.execute([c = counted(count)] {}); }) == ESHUTDOWN);
    CHECK(error_of([&] { queue.submit([c = counted(count)] {}); }) == ESHUTDOWN);
    CHECK(error_of([&] { cmwq::scope(queue, [&](auto &s) { s.spawn([] {}); }); }) == ESHUTDOWN);
    go.set_value();
    drainer.join();
    CHECK(*count == 0);
    queue.submit([] {}).get();
}

void scopes(cmwq::workqueue &queue)
{
    int sum = 0;
    std::atomic<int> ran{0};
    int result = cmwq::scope(queue, [&](auto &s) {
        for (int i = 0; i < 100; i++)
            s.spawn([&] {
                ran++;
                // An item of the scope spawns another one, and has a scope of its own.
                s.spawn([&] { ran++; });
                cmwq::scope(queue, [&](auto &inner) { inner.spawn([&] { ran++; }); });
            });
        sum = 3;
        return sum;
    });
    CHECK(result == 3 && ran == 300);
    CHECK(&cmwq::scope(queue, [&](auto &) -> int & { return sum; }) == &sum);
    // The first exception comes out after all items have ended.
    ran = 0;
    try {
        cmwq::scope(queue, [&](auto &s) {
            for (int i = 0; i < 10; i++)
                s.spawn([&] {
                    ran++;
                    throw std::out_of_range("item");
                });
        });
        CHECK(false);
    } catch (const std::out_of_range &) {
        CHECK(ran == 10);
    }
    // And that of the function itself, too.
    try {
        cmwq::scope(queue, [&](auto &s) {
            s.spawn([&] { ran++; });
            throw std::domain_error("function");
        });
        CHECK(false);
    } catch (const std::domain_error &) {
        CHECK(ran == 11);
    }
    // Items that need the place of the item that opens the scope do not run.
    {
        cmwq::workqueue one("one place", CMWQ_WQ_UNBOUND, 1);
        int before = ran;
        auto nested = [&] {
            return error_of([&] { cmwq::scope(one, [&](auto &s) { s.spawn([&] { ran++; }); }); });
        };
        CHECK(one.submit(nested).get() == EDEADLK && ran == before);
        // Nor can that item wait for one of its own; it runs all the same.
        cmwq::work behind([&] { ran++; });
        cmwq::delayed_work later([&] { ran++; });
        auto flushes = [&] {
            CHECK(one.queue(behind) == cmwq::queued::accepted);
            CHECK(one.queue_after(std::chrono::hours(1), later) == cmwq::queued::accepted);
            return error_of([&] { behind.flush(); }) == EDEADLK && error_of([&] { later.flush(); }) == EDEADLK;
        };
        CHECK(one.submit(flushes).get() && ran >= before);
        behind.flush();
        later.flush();
        CHECK(ran == before + 2);
        ran = before;
    }
    // However many there are, an item costs no more than itself.
    std::size_t before = allocated;
    cmwq::scope(queue, [&](auto &s) {
        for (int i = 0; i < 10000; i++)
            s.spawn([&] { ran++; });
    });
    CHECK(ran == 10011 && allocated - before < 10000 * 200);
}

void reusable_items(cmwq::workqueue &queue)
{
    std::atomic<int> runs{0}, at_once{0};
    {
        cmwq::work item([&] {
            CHECK(++at_once == 1);
            runs++;
            --at_once;
        });
        int queued = 0;
        for (int i = 0; i < 10000; i++)
            queued += queue.queue(item) == cmwq::queued::accepted;
        item.flush();
        CHECK(runs == queued && !item.pending() && !item.flush());
    }
    // What became of it is told apart.
    {
        std::promise<void> go;
        std::shared_future<void> gone = go.get_future();
        cmwq::work item([gone] { gone.wait(); });
        CHECK(queue.queue(item) == cmwq::queued::accepted);
        while (item.pending())
            std::this_thread::yield();
        CHECK(queue.queue(item) == cmwq::queued::accepted);
        CHECK(queue.queue(item) == cmwq::queued::pending);
        CHECK(cmwq_disable_work(item.native_handle()));
        CHECK(queue.queue(item) == cmwq::queued::disabled);
        CHECK(cmwq_enable_work(item.native_handle()));
        go.set_value();
    }
    // The destructor waits for one that runs, and removes one that does not.
    std::promise<void> begun;
    std::atomic<bool> ended{false};
    {
        cmwq::work item([&] {
            begun.set_value();
            cmwq_sleep_ns(20'000'000);
            ended = true;
        });
        queue.queue(item);
        begun.get_future().wait();
    }
    CHECK(ended);
}

void moves_and_order()
{
    auto queue = cmwq::workqueue::ordered("order");
    std::string order;
    for (char letter = 'a'; letter <= 'z'; letter++)
        queue.execute([&order, letter] { order += letter; });
    // A queue that is moved keeps its items; the one that it replaces runs its own first.
    cmwq::workqueue other("other");
    std::atomic<int> left{0};
    for (int i = 0; i < 100; i++)
        other.execute([&] { left++; });
    other = std::move(queue);
    CHECK(left == 100 && queue.native_handle() == nullptr);
    CHECK(!queue && other && other.name() == "order");
    other.flush();
    CHECK(order == "abcdefghijklmnopqrstuvwxyz");
    other.submit([&] { order.clear(); });
    {
        cmwq::workqueue last(std::move(other));
    }
    CHECK(order.empty());
}

int fibonacci(cmwq::workqueue &queue, int n)
{
    if (n < 2)
        return n;
    auto last = queue.submit(fibonacci, std::ref(queue), n - 1);
    int before = fibonacci(queue, n - 2);
    return before + cmwq::blocking([&] { return last.get(); });
}

void blocking(cmwq::workqueue &queue)
{
    CHECK(cmwq::blocking([] { return 5; }) == 5);
    CHECK(&cmwq::blocking(reference) == &global);
    // Items of one function that wait for one another.
    CHECK(queue.submit(fibonacci, std::ref(queue), 10).get() == 55);
    // An item that waits for the future of another one.
    auto answer = queue.submit([&] {
        auto inner = queue.submit([] { return 1; });
        return cmwq::blocking([&] { return inner.get(); });
    });
    CHECK(answer.get() == 1);
    try {
        cmwq::blocking([] { throw std::runtime_error("inside"); });
        CHECK(false);
    } catch (const std::runtime_error &) {
    }
}

// What is busy is shown by the name of its function, on standard error.
void named(cmwq::workqueue &queue)
{
    queue.execute([] { cmwq_show_all_workqueues(); });
    queue.submit([] (int) { cmwq_show_all_workqueues(); }, 1).get();
    cmwq::completion_queue done;
    done.execute(queue, [] { cmwq_show_all_workqueues(); }, 1);
    queue.flush();
}

} // namespace

int main()
{
    cmwq::workqueue queue("wrapper");
    // More than the items that wait for items of the same queue.
    queue.set_max_active(512);
    futures(queue);
    nothing_is_leaked(queue);
    bounds();
    refusals();
    deadlines();
    scopes(queue);
    reusable_items(queue);
    moves_and_order();
    blocking(queue);
    named(queue);
    std::puts("all holds");
}
