/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A handler of warnings that waits for an item of the scope which has caused the warning, while that item spawns another one.
 *
 * Seen to fail with: the scope's lock held while an item is queued.
 */
#include <cmwq.hpp>

#include <atomic>
#include <cstdint>

#include "check.hpp"

namespace {

std::atomic<int> ran{0};
std::atomic<bool> warned{false}, in_time{false};

/* Waits for the end of the item that was queued, for a while: otherwise the program would hang. */
void handler(const char *, void *)
{
	const std::uint64_t until = cmwq_now_ns() + 20000000000;

	warned = true;
	while (ran < 2 && cmwq_now_ns() < until)
		cmwq_sleep_ns(200000);
	in_time = ran == 2;
}

} // namespace

int main()
{
	/* Its first use warns, when the item was queued already. */
	auto queue = cmwq::workqueue::system(CMWQ_SYSTEM_DEPRECATED_UNBOUND_WQ);

	cmwq_set_warning_handler(handler, nullptr);
	cmwq::scope(queue, [](auto &items) {
		items.spawn([&items] {
			items.spawn([] { ++ran; });
			++ran;
		});
	});
	CHECK(ran == 2 && warned && in_time);
	return 0;
}
