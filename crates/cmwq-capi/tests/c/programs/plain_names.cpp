// SPDX-License-Identifier: MIT OR Apache-2.0
// Both headers in C++17: with classes, lambdas and references around them.
#include <cmwq.h>
#include <linux/completion.h>
#include <linux/err.h>
#include <linux/kernel.h>
#include <linux/workqueue.h>

#include <atomic>
#include <string>

namespace {

struct Device {
    std::atomic<int> handled{0};
    work_struct work;
    delayed_work poll;
    completion done;

    Device()
    {
        INIT_WORK(&work, [](work_struct *w) { container_of(w, Device, work)->handled++; });
        INIT_DELAYED_WORK(&poll, [](work_struct *w) { complete(&container_of(to_delayed_work(w), Device, poll)->done); });
        init_completion(&done);
    }
};

static_assert(sizeof(work_struct) == 48 && sizeof(delayed_work) == 80, "documented sizes");

DECLARE_WORK(declared, [](work_struct *) {});
cmwq_work prefixed = CMWQ_WORK_INIT([](cmwq_work *) {});
cmwq_delayed_work prefixed_delayed = CMWQ_DELAYED_WORK_INIT([](cmwq_work *) {});

} // namespace

int main()
{
    std::string name = "c++";
    workqueue_struct *wq = alloc_workqueue("%s-%d", WQ_UNBOUND | WQ_HIGHPRI, 0, name.c_str(), 17);
    Device device;

    if (!wq)
        return 1;
    bool queued = queue_work(wq, &device.work) && queue_work(wq, &declared) && queue_delayed_work(wq, &device.poll, msecs_to_jiffies(1));
    queued = queued && cmwq_queue_work(cmwq_system_workqueue(CMWQ_SYSTEM_DFL), &prefixed);
    wait_for_completion(&device.done);
    cmwq_flush_work(&prefixed);
    cmwq_cancel_delayed_work_sync(&prefixed_delayed);
    destroy_workqueue(wq);
    return queued && device.handled == 1 ? 0 : 1;
}
