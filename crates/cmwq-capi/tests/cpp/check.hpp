// SPDX-License-Identifier: MIT OR Apache-2.0
// What the test programs share.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <system_error>

#define CHECK(condition)                                                                  \
    do {                                                                                  \
        if (!(condition)) {                                                               \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);          \
            std::exit(1);                                                                 \
        }                                                                                 \
    } while (0)

// The number of the error that `func` throws; 0 if it throws none.
template <typename F> int error_of(F &&func)
{
    try {
        func();
    } catch (const std::system_error &error) {
        return error.code().value();
    }
    return 0;
}
