// SPDX-License-Identifier: MIT OR Apache-2.0
// A program whose macros have short names: the headers do not use those.
#include "short_names.h"
// Behind it.
#include <cmwq.hpp>
#include <linux/workqueue.h>

#include <cstdio>
#include <cstdlib>

#define CHECK(condition) ((condition) ? (void)0 : (std::fprintf(stderr, "line %d: %s\n", __LINE__, #condition), std::abort()))

namespace {

struct counted {
    cmwq_work work;
    int runs = 0;
};

struct driver {
    work_struct work;
    int runs = 0;
};

void count(cmwq_work *work)
{
    CMWQ_CONTAINER_OF(work, counted, work)->runs++;
}

void count_as_driver(work_struct *work)
{
    container_of(work, driver, work)->runs++;
    CHECK(container_of_const(static_cast<const work_struct *>(work), driver, work)->runs == T);
}

} // namespace

int main()
{
    cmwq::workqueue queue("short names", CMWQ_WQ_UNBOUND);
    counted counted;
    driver driver;
    int ran = 0;

    cmwq_init_work(&counted.work, count);
    CHECK(cmwq_queue_work(queue.native_handle(), &counted.work));
    INIT_WORK(&driver.work, count_as_driver);
    CHECK(queue_work(reinterpret_cast<workqueue_struct *>(queue.native_handle()), &driver.work));
    queue.flush();
    CHECK(counted.runs == T && driver.runs == T);

    CHECK(queue.submit([](int n) { return n + 1; }, 41).get() == 42);
    queue.execute([&] { ran++; });
    queue.flush();
    cmwq::work item([&] { ran++; });
    CHECK(queue.queue(item) == cmwq::queued::accepted);
    item.flush();
    cmwq::scope(queue, [&](auto &items) { items.spawn([&] { ran++; }); });
    CHECK(cmwq::on_cpu(cmwq_current_cpu(), [] { return 7; }) == 7);
    CHECK(cmwq::blocking([] { return 8; }) == 8 && ran == 3);
    cmwq::completion_queue results;
    results.execute(queue, [] { return 9; }, 5);
    return 0;
}
