/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Kernel-shaped, for user space; part of cmwq: searching in a sorted array: the standard's. A program that brings its own defines CMWQ_NO_SORT.
 */
#ifndef CMWQ_LINUX_BSEARCH_H
#define CMWQ_LINUX_BSEARCH_H

/* Silences -Wpedantic for include_next. */
#if defined(__GNUC__)
#pragma GCC system_header
#endif
#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_SORT
#if defined(__has_include_next)
#if __has_include_next(<linux/bsearch.h>)
#include_next <linux/bsearch.h>
#endif
#endif
#endif

#ifndef CMWQ_NO_SORT

#include <linux/sort.h>
#include <stdlib.h>

#endif
#endif
