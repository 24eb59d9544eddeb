// SPDX-License-Identifier: MIT OR Apache-2.0
// cmwq.hpp: delayed items, batches, completion queues, groups, threads, attributes. Ends with status 0 if all holds.
#include <cmwq.hpp>
#include "check.hpp"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <poll.h>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

void delayed(cmwq::workqueue &queue)
{
    std::atomic<int> runs{0};
    {
        cmwq::delayed_work item([&] { runs++; });
        CHECK(queue.queue_after(hours(1), item) == cmwq::queued::accepted);
        CHECK(queue.queue_after(hours(1), item) == cmwq::queued::pending);
        CHECK(item.pending() && item.left() > milliseconds(0) && item.left() <= hours(1));
        CHECK(item.busy() == CMWQ_WORK_BUSY_PENDING && !item.is_current());
        CHECK(queue.requeue_after(hours(2), item) == cmwq::queued::moved);
        CHECK(item.left() > hours(1));
        // Its timer runs no longer than the new delay: nothing happens. Then it is brought forward.
        CHECK(queue.requeue_after_if(CMWQ_MOD_IF_LATER, hours(3), item));
        CHECK(item.left() <= hours(2));
        CHECK(queue.requeue_after_if(CMWQ_MOD_IF_LATER, milliseconds(0), item));
        CHECK(item.flush_for(cmwq::forever));
        CHECK(runs == 1 && !item.flush() && item.left() == milliseconds(0));
        // Flushing stops the timer and runs the item.
        CHECK(queue.queue_after_on(0, hours(1), item) && item.flush() && runs == 2);
        CHECK(!queue.requeue_after_on(0, hours(1), item) && item.cancel() && !item.cancel_sync());
        CHECK(!item.disable() && !item.disable_sync());
        CHECK(queue.queue_after(milliseconds(1), item) == cmwq::queued::disabled);
        CHECK(!item.enable() && item.enable());
        // A timer that fires by itself.
        CHECK(queue.queue_after(milliseconds(1), item) == cmwq::queued::accepted);
        while (runs != 3)
            std::this_thread::yield();
        // The destructor stops this one.
        queue.queue_after(hours(1), item);
    }
    queue.flush();
    CHECK(runs == 3);
    cmwq::delayed_work again([&] { CHECK(again.is_current()); });
    queue.queue_after(milliseconds(0), again);
    again.flush();
}

void batches(cmwq::workqueue &queue)
{
    std::atomic<int> runs{0};
    std::vector<std::unique_ptr<cmwq::work>> items;
    // More than are published at a time.
    for (int i = 0; i < 300; i++)
        items.push_back(std::make_unique<cmwq::work>([&] { runs++; }));
    items[0]->disable();
    items[299]->disable();
    CHECK(queue.queue_batch(items.begin(), items.end()) == 298);
    queue.flush();
    CHECK(runs == 298);
    std::vector<cmwq::queued> fates;
    CHECK(queue.queue_batch(items.begin(), items.end(), std::back_inserter(fates)) == 298);
    queue.flush();
    CHECK(fates.size() == 300 && fates[0] == cmwq::queued::disabled);
    CHECK(fates[1] == cmwq::queued::accepted && fates[299] == cmwq::queued::disabled);
    CHECK(queue.enable_and_queue(*items[0]) && items[0]->flush_for(cmwq::forever));
    CHECK(items[2]->disable() == false && !items[2]->is_current());
    items[2]->enable();
    CHECK(queue.queue_on(0, *items[2]));
    CHECK(queue.queue_node(0, *items[3]));
    queue.flush();
    CHECK(!queue.queue_on(0, *items[299]));
}

void completions(cmwq::workqueue &queue)
{
    cmwq::completion done;
    CHECK(!done.done() && !done.try_wait() && !done.wait_for(milliseconds(1)));
    queue.execute([&] { done.complete(); });
    done.wait();
    CHECK(!done.done());
    done.complete_all();
    CHECK(done.done() && done.try_wait() && done.wait_for(cmwq::forever));
    done.reinit();
    CHECK(!done.done());
}

void completion_queues(cmwq::workqueue &queue)
{
    cmwq_cqe entries[4];
    cmwq::completion_queue results(CMWQ_CQ_EVENTFD, 2);
    CHECK(results.arm() && results.drain(entries, 4) == 0);
    CHECK(results.arm());
    auto box = std::make_unique<int>(21);
    results.execute(queue, [box = std::move(box)] { return 2 * *box; }, 7);
    pollfd ready = {results.fd(), POLLIN, 0};
    CHECK(poll(&ready, 1, -1) == 1 && results.drain(entries, 4) == 1);
    CHECK(entries[0].token == 7 && entries[0].result == 42);
    // Full: it says so, calls nothing, and frees what it was given.
    results.post(1, -1);
    CHECK(results.try_post(2, -2) && !results.try_post(3, -3));
    auto kept = std::make_shared<int>(0);
    CHECK(!results.try_execute(queue, [kept] { return ++*kept; }, 4));
    CHECK(error_of([&] { results.execute(queue, [kept] {}, 4); }) == ENOSPC);
    CHECK(error_of([&] { results.post(4, 0); }) == ENOSPC);
    CHECK(*kept == 0 && kept.use_count() == 1);
    CHECK(!results.arm() && results.wait(entries, 4) == 2);
    CHECK(entries[0].token == 1 && entries[1].result == -2);
    CHECK(results.wait_for(milliseconds(1), entries, 4) == 0);
    // A function without a result, and what another owner takes.
    cmwq::completion_queue other = results.clone();
    results.execute(queue, [] {}, 5);
    CHECK(other.wait(entries, 4) == 1 && entries[0].token == 5 && entries[0].result == 0);
    // What is as good as an integer.
    enum class colour { red = 3 };
    results.execute(queue, [calls = 0]() mutable { return ++calls == 1 ? colour::red : colour(); }, 6);
    CHECK(other.wait(entries, 4) == 1 && entries[0].token == 6 && entries[0].result == 3);
    cmwq::completion_queue moved(std::move(other));
    CHECK(!other && moved && moved.native_handle() != nullptr);
    cmwq::completion_queue plain;
    CHECK(error_of([&] { (void)plain.arm(); }) == EINVAL);
    CHECK(error_of([&] { (void)plain.fd(); }) == EINVAL);
    CHECK(error_of([] { cmwq::completion_queue wrong(1U << 20); }) == EINVAL);
}

// Two workqueues that may have one item active together.
void groups()
{
    cmwq::group group("shared", 1);
    cmwq::options options;
    options.group = group.native_handle();
    auto one = cmwq::workqueue::with("one", options), two = cmwq::workqueue::with("two", options);
    std::atomic<int> now{0}, most{0}, runs{0};
    auto count = [&] {
        int active = ++now, seen = most;
        while (seen < active && !most.compare_exchange_weak(seen, active)) {
        }
        cmwq::sleep_for(milliseconds(1));
        now--;
        runs++;
    };
    for (int i = 0; i < 5; i++) {
        one.execute(count);
        two.execute(count);
    }
    one.flush();
    two.flush();
    CHECK(most == 1 && runs == 10);
    group.set_max_active(2);
    CHECK(error_of([&] { group.set_max_active(0); }) == EINVAL);
    CHECK(error_of([] { cmwq::group none("none", 0); }) == EINVAL);
}

std::atomic<int> workers_started{0};

void own_threads()
{
    cmwq_thread_attrs attrs = CMWQ_THREAD_ATTRS_INIT;
    attrs.worker_start = [](const cmwq_worker *, void *) { workers_started++; };
    cmwq::threads threads(attrs);
    cmwq::options options;
    options.threads = threads.native_handle();
    auto queue = cmwq::workqueue::with("threads", options);
    queue.submit([] {}).get();
    CHECK(workers_started >= 1);
    CHECK(error_of([&] { threads.make_default(); }) == EBUSY);
    attrs.flags = 1U << 20;
    CHECK(error_of([&] { cmwq::threads wrong(attrs); }) == EINVAL);
}

void attributes()
{
    cmwq::workqueue queue("attributed");
    cmwq_workqueue_attrs attrs = cmwq::default_attributes();
    attrs.affinity_scope = CMWQ_AFFN_NUMA;
    queue.set_attributes(attrs);
    CHECK(queue.attributes().affinity_scope == CMWQ_AFFN_NUMA);
    CHECK(cmwq::read_attribute("attributed", "affinity_scope") == "numa");
    cmwq::write_attribute("attributed", "affinity_scope", "cpu");
    CHECK(queue.attributes().affinity_scope == CMWQ_AFFN_CPU);
    CHECK(error_of([] { cmwq::write_attribute("attributed", "affinity_scope", "moon"); }) == EINVAL);
    CHECK(error_of([] { cmwq::read_attribute("nothing", "affinity_scope"); }) == ENOENT);
    attrs.affinity_scope = 99;
    CHECK(error_of([&] { queue.set_attributes(attrs); }) == EINVAL);
    CHECK(!queue.congested() && queue.id() != 0 && queue.id() != cmwq::workqueue("other").id());
    cmwq_cpumask online = cmwq::online_cpus(), possible = cmwq::possible_cpus();
    CHECK((online.bits[0] & ~possible.bits[0]) == 0 && possible.bits[0] != 0);
    cmwq::set_unbound_cpumask(online);
    CHECK(error_of([] { cmwq::set_unbound_cpumask({}); }) == EINVAL);
    int cpu = 0;
    while (!(online.bits[cpu / 64] >> cpu % 64 & 1))
        cpu++;
    CHECK(cmwq::on_cpu(cpu, [] { return std::string("there"); }) == "there");
    CHECK(error_of([] { cmwq::on_cpu(8191, [] {}); }) == ENODEV);
    try {
        cmwq::on_cpu(cpu, [] { throw std::runtime_error("there"); });
        CHECK(false);
    } catch (const std::runtime_error &) {
    }
}

void systems()
{
    {
        auto everyones = cmwq::workqueue::system();
        CHECK(everyones.submit([] { return 1; }).get() == 1 && everyones.name().empty());
        cmwq::workqueue own("own");
        own = std::move(everyones);
        CHECK(own.native_handle() == cmwq_system_workqueue(CMWQ_SYSTEM_DFL));
    }
    // Its destructor leaves it alone.
    auto again = cmwq::workqueue::system(CMWQ_SYSTEM_DFL);
    CHECK(again.submit([] { cmwq::describe("again"); return 2; }).get() == 2);
}

} // namespace

int main()
{
    cmwq::workqueue queue("beside");
    delayed(queue);
    batches(queue);
    completions(queue);
    completion_queues(queue);
    groups();
    own_threads();
    attributes();
    systems();
    std::puts("all holds");
}
