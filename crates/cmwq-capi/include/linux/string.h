/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Kernel-shaped, for user space; part of cmwq: the standard's.
 */
#ifndef CMWQ_LINUX_STRING_H
#define CMWQ_LINUX_STRING_H

/* Silences -Wpedantic for include_next. */
#if defined(__GNUC__)
#pragma GCC system_header
#endif
#include <linux/cmwq_base.h>
#if defined(__has_include_next)
#if __has_include_next(<linux/string.h>)
#include_next <linux/string.h>
#endif
#endif

#include <ctype.h>
#include <errno.h>
#include <linux/types.h>
#include <string.h>

#ifndef CMWQ_NO_KERNEL_MACROS
/* How long the copy is, without its 0; -E2BIG: it was cut. */
static inline ssize_t cmwq_strscpy(char *to, const char *from, size_t size)
{
	size_t length;

	if (!size)
		return -E2BIG;
	for (length = 0; length < size - 1 && from[length]; length++)
		to[length] = from[length];
	to[length] = '\0';
	return from[length] ? -E2BIG : (ssize_t)length;
}
/* Without a size, `to` is an array. */
#ifndef strscpy
#define CMWQ_STRSCPY(to, from, size, ...) cmwq_strscpy((to), (from), (size))
#define strscpy(to, ...) CMWQ_STRSCPY(to, __VA_ARGS__, sizeof(to), 0)
#endif

static inline char *skip_spaces(const char *text)
{
	while (isspace((unsigned char)*text))
		text++;
	return (char *)(uintptr_t)text;
}

/* Cuts white space off the end of the text, and returns where it begins without. */
static inline char *strim(char *text)
{
	size_t length = strlen(text);

	while (length && isspace((unsigned char)text[length - 1]))
		length--;
	text[length] = '\0';
	return skip_spaces(text);
}
#define strstrip(text) strim(text)
#endif

#endif
