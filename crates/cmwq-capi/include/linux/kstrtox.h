/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: numbers from texts: all
 * of the text must be one, with a newline behind it at most. -EINVAL, -ERANGE: nothing is written.
 * A program that brings its own defines CMWQ_NO_KERNEL_MACROS.
 */
#ifndef CMWQ_LINUX_KSTRTOX_H
#define CMWQ_LINUX_KSTRTOX_H

#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_KERNEL_MACROS
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/kstrtox.h"
#include <linux/cmwq_next.h>
#endif

#ifndef CMWQ_NO_KERNEL_MACROS

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <linux/types.h>
#include <stdlib.h>
#include <string.h>

static inline int cmwq_kstrtoull(const char *text, unsigned int base, unsigned long long *to)
{
	unsigned long long value;
	char *end;

	text += *text == '+';
	if (!isalnum((unsigned char)*text))
		return -EINVAL;
	errno = 0;
	value = strtoull(text, &end, (int)base);
	if (end == text || (*end && (*end != '\n' || end[1])))
		return -EINVAL;
	if (errno)
		return -ERANGE;
	*to = value;
	return 0;
}

static inline int cmwq_kstrtoll(const char *text, unsigned int base, long long *to)
{
	unsigned long long value;
	bool negative = *text == '-';
	int failed = cmwq_kstrtoull(text + negative, base, &value);

	if (failed || (negative && text[1] == '+'))
		return failed ? failed : -EINVAL;
	if (value > (unsigned long long)LLONG_MAX + negative)
		return -ERANGE;
	*to = negative ? (long long)-value : (long long)value;
	return 0;
}

#define CMWQ_KSTRTO(name, wide, by, type, holds)                                         \
	static inline CMWQ_MUST_CHECK int name(const char *text, unsigned int base, type *to) \
	{                                                                                \
		wide value;                                                              \
		int failed = by(text, base, &value);                                     \
                                                                                         \
		if (failed)                                                              \
			return failed;                                                   \
		if (!(holds))                                                            \
			return -ERANGE;                                                  \
		*to = (type)value;                                                       \
		return 0;                                                                \
	}
#define CMWQ_KSTRTOU(name, type)                                    \
	CMWQ_KSTRTO(name, unsigned long long, cmwq_kstrtoull, type, \
		value == (unsigned long long)(type)value)
#define CMWQ_KSTRTOS(name, type) \
	CMWQ_KSTRTO(name, long long, cmwq_kstrtoll, type, value == (long long)(type)value)
CMWQ_KSTRTOU(kstrtoull, unsigned long long)
CMWQ_KSTRTOU(kstrtoul, unsigned long)
CMWQ_KSTRTOU(kstrtouint, unsigned int)
CMWQ_KSTRTOU(kstrtou16, uint16_t)
CMWQ_KSTRTOU(kstrtou8, uint8_t)
CMWQ_KSTRTOS(kstrtoll, long long)
CMWQ_KSTRTOS(kstrtol, long)
CMWQ_KSTRTOS(kstrtoint, int)
CMWQ_KSTRTOS(kstrtos16, int16_t)
CMWQ_KSTRTOS(kstrtos8, int8_t)
#define kstrtou64(text, base, to) kstrtoull((text), (base), (to))
#define kstrtos64(text, base, to) kstrtoll((text), (base), (to))
#define kstrtou32(text, base, to) kstrtouint((text), (base), (to))
#define kstrtos32(text, base, to) kstrtoint((text), (base), (to))

/* y, t, 1, on; n, f, 0, off: by their first letters. */
static inline CMWQ_MUST_CHECK int kstrtobool(const char *text, bool *to)
{
	char first = text ? *text : '\0', second = first ? text[1] : '\0';

	if (first && strchr("yYtT1", first))
		*to = true;
	else if (first && strchr("nNfF0", first))
		*to = false;
	else if ((first == 'o' || first == 'O') && (second == 'n' || second == 'N'))
		*to = true;
	else if ((first == 'o' || first == 'O') && (second == 'f' || second == 'F'))
		*to = false;
	else
		return -EINVAL;
	return 0;
}

#endif
#endif
