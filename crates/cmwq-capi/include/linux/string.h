/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* This header of cmwq has names of the kernel, for programs in user space: the standard's. */
#ifndef CMWQ_LINUX_STRING_H
#define CMWQ_LINUX_STRING_H

#include <linux/cmwq_base.h>
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/string.h"
#include <linux/cmwq_next.h>

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

/* The copy, and zeros behind it. */
static inline ssize_t cmwq_strscpy_pad(char *to, const char *from, size_t size)
{
	ssize_t length = cmwq_strscpy(to, from, size);

	if (length >= 0)
		memset(to + length, 0, size - (size_t)length);
	return length;
}
#ifndef strscpy_pad
#define CMWQ_STRSCPY_PAD(to, from, size, ...) cmwq_strscpy_pad((to), (from), (size))
#define strscpy_pad(to, ...) CMWQ_STRSCPY_PAD(to, __VA_ARGS__, sizeof(to), 0)
#endif

/* How long the text is after all that is there of `from` was added; it is cut to `size`. */
static inline size_t cmwq_strlcat(char *to, const char *from, size_t size)
{
	size_t length = strlen(to);

	if (length < size)
		(void)cmwq_strscpy(to + length, from, size - length);
	return length + strlen(from);
}
#ifndef strlcat
#define strlcat(to, from, size) cmwq_strlcat((to), (from), (size))
#endif

static inline char *strreplace(char *text, char old, char by)
{
	char *at;

	for (at = text; *at; at++)
		if (*at == old)
			*at = by;
	return text;
}

/* How long the prefix is, 0 if the text does not begin with it. */
static inline size_t str_has_prefix(const char *text, const char *prefix)
{
	size_t length = strlen(prefix);

	return strncmp(text, prefix, length) ? 0 : length;
}

#define strstarts(text, prefix) (!strncmp((text), (prefix), strlen(prefix)))

/* The end of a path. */
static inline const char *kbasename(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* The first byte that is another one. */
static inline void *memchr_inv(const void *memory, int byte, size_t size)
{
	const unsigned char *at = (const unsigned char *)memory;

	for (; size; size--, at++)
		if (*at != (unsigned char)byte)
			return (void *)(uintptr_t)at;
	return NULL;
}

/* A compiler does not leave it out. */
static inline void memzero_explicit(void *memory, size_t size)
{
	memset(memory, 0, size);
	__asm__ __volatile__("" : : "r"(memory) : "memory");
}

/* Equal but for a newline at the end of either. */
static inline bool sysfs_streq(const char *a, const char *b)
{
	size_t i = 0;

	while (a[i] && a[i] == b[i])
		i++;
	return (!a[i] || (a[i] == '\n' && !a[i + 1])) && (!b[i] || (b[i] == '\n' && !b[i + 1]));
}

/* Where the text is in a list of `n`, or that ends with NULL; -EINVAL: nowhere. */
static inline int cmwq_match_string(const char *const *list, size_t n, const char *text,
	bool newline)
{
	size_t i;

	for (i = 0; i < n && list[i]; i++)
		if (newline ? sysfs_streq(list[i], text) : !strcmp(list[i], text))
			return (int)i;
	return -EINVAL;
}
#define match_string(list, n, text) cmwq_match_string((list), (n), (text), false)
#define __sysfs_match_string(list, n, text) cmwq_match_string((list), (n), (text), true)
#define sysfs_match_string(list, text) \
	__sysfs_match_string(list, sizeof(list) / sizeof((list)[0]), text)
#endif

#endif
