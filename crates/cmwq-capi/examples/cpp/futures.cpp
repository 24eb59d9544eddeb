// SPDX-License-Identifier: MIT OR Apache-2.0
// Workqueues in C++: futures, items that borrow, a reusable item, an ordered queue.
//
//     c++ -std=c++17 futures.cpp $(pkg-config --cflags --libs cmwq) -o futures && ./futures
#include <cmwq.hpp>

#include <algorithm>
#include <atomic>
#include <iostream>
#include <numeric>
#include <string>
#include <vector>

int main()
{
    cmwq::workqueue queue("example");

    // A function with arguments; what it returns or throws comes out of the future.
    auto sum = [](int from, int to) {
        std::vector<int> numbers(static_cast<std::size_t>(to - from + 1));
        std::iota(numbers.begin(), numbers.end(), from);
        return std::accumulate(numbers.begin(), numbers.end(), 0);
    };
    std::future<int> future = queue.submit(sum, 1, 100);
    std::cout << future.get() << '\n';

    // Items that use the variables of this function: scope() returns when they have ended.
    std::vector<int> left{3, 1, 2}, right{6, 5, 4};
    cmwq::scope(queue, [&](auto &s) {
        s.spawn([&] { std::sort(left.begin(), left.end()); });
        std::sort(right.begin(), right.end());
    });
    std::cout << left.front() << ' ' << right.front() << '\n';

    // One item for many events: queued while it waits, it runs once for all of them.
    std::atomic<int> events{0}, handled{0};
    cmwq::work handler([&] { handled += events.exchange(0); });
    for (int i = 0; i < 1000; i++) {
        events++;
        queue.queue(handler);
    }
    handler.flush();
    std::cout << handled << " events\n";

    // In order, one at a time: no lock around `log`.
    std::string log;
    auto ordered = cmwq::workqueue::ordered("log");
    for (char letter : std::string("abc"))
        ordered.execute([&log, letter] { log += letter; });
    ordered.flush();
    std::cout << log << '\n';
}
