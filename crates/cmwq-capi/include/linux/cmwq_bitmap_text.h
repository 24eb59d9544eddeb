/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: sets of bits as texts:
 * masks (hexadecimal, groups of 32 bits with commas between, the highest first) and lists (0-3,8).
 */
#ifndef CMWQ_LINUX_CMWQ_BITMAP_TEXT_H
#define CMWQ_LINUX_CMWQ_BITMAP_TEXT_H

#include <linux/cmwq_base.h>

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CMWQ_LONG_BITS (8 * sizeof(long))

static inline bool cmwq_bits_test(const unsigned long *bits, size_t at)
{
	return bits[at / CMWQ_LONG_BITS] >> at % CMWQ_LONG_BITS & 1;
}

static inline void cmwq_bits_set(unsigned long *bits, size_t at)
{
	bits[at / CMWQ_LONG_BITS] |= 1UL << at % CMWQ_LONG_BITS;
}

static inline void cmwq_bits_zero(unsigned long *bits, size_t nbits)
{
	memset(bits, 0, (nbits + CMWQ_LONG_BITS - 1) / CMWQ_LONG_BITS * sizeof(*bits));
}

/* Puts what snprintf() writes at `at`, as far as there is room, and returns where it would end. */
#define cmwq_put(text, size, at, ...)                                  \
	((at) +                                                        \
		(size_t)snprintf((at) < (size) ? (text) + (at) : NULL, \
			(at) < (size) ? (size) - (at) : 0, __VA_ARGS__))

/* Returns the length of the whole mask, also if there was less room. */
static inline size_t cmwq_bits_mask(char *text, size_t size, const unsigned long *bits,
	size_t nbits)
{
	size_t at = 0, group = (nbits + 31) / 32, digits = ((nbits + 31) % 32 + 4) / 4;

	while (group--) {
		unsigned long word = bits[group * 32 / CMWQ_LONG_BITS] >>
				group * 32 % CMWQ_LONG_BITS &
			0xffffffffu;

		if (nbits < group * 32 + 32)
			word &= (1UL << nbits % 32) - 1;
		at = cmwq_put(text, size, at, "%s%0*lx", at ? "," : "", (int)digits, word);
		digits = 8;
	}
	return at;
}

static inline size_t cmwq_bits_list(char *text, size_t size, const unsigned long *bits,
	size_t nbits)
{
	size_t at = 0, first, last;

	for (first = 0; first < nbits; first = last + 1) {
		last = first;
		if (!cmwq_bits_test(bits, first))
			continue;
		while (last + 1 < nbits && cmwq_bits_test(bits, last + 1))
			last++;
		at = cmwq_put(text, size, at, last > first ? "%s%zu-%zu" : "%s%zu", at ? "," : "",
			first, last);
	}
	return at;
}

/*
 * Hexadecimal digits; commas count 32 bits each. White space around it. -EINVAL, -EOVERFLOW:
 * nothing is written then.
 */
static inline int cmwq_bits_parse_mask(const char *text, size_t length, unsigned long *bits,
	size_t nbits)
{
	/* From the end, where the lowest bits are. */
	size_t start = 0, end = 0, at, in_group, group;
	int writes;

	while (end < length && text[end])
		end++;
	while (end > 0 && strchr(" \t\n", text[end - 1]))
		end--;
	while (start < end && strchr(" \t\n", text[start]))
		start++;
	if (start == end)
		return -EINVAL;
	for (writes = 0; writes < 2; writes++) {
		if (writes)
			cmwq_bits_zero(bits, nbits);
		in_group = group = 0;
		for (at = end; at-- > start;) {
			const char *digits = "0123456789abcdef0123456789ABCDEF", *digit;
			unsigned int value, bit;

			if (text[at] == ',') {
				if (!in_group || at == start)
					return -EINVAL;
				group++;
				in_group = 0;
				continue;
			}
			digit = text[at] ? strchr(digits, text[at]) : NULL;
			if (!digit)
				return -EINVAL;
			if (in_group == 8)
				return -EOVERFLOW;
			value = (unsigned int)(digit - digits) % 16;
			for (bit = 0; bit < 4; bit++) {
				size_t is = group * 32 + in_group * 4 + bit;

				if (!(value >> bit & 1))
					continue;
				if (is >= nbits)
					return -EOVERFLOW;
				if (writes)
					cmwq_bits_set(bits, is);
			}
			in_group++;
		}
	}
	return 0;
}

static inline int cmwq_bits_number(const char **at, size_t nbits, size_t *to)
{
	char *end;

	if (**at == 'N') {
		*to = nbits - 1;
		++*at;
		return 0;
	}
	if (**at < '0' || **at > '9')
		return -EINVAL;
	errno = 0;
	*to = strtoul(*at, &end, 10);
	*at = end;
	return errno ? -EOVERFLOW : 0;
}

/*
 * Numbers and ranges: "0-3,8,16-31:1/4" (of every 4 the first), "N" for the last, "all". -EINVAL;
 * -ERANGE: a bit that there is not.
 */
static inline int cmwq_bits_parse_list(const char *text, unsigned long *bits, size_t nbits)
{
	cmwq_bits_zero(bits, nbits);
	for (;;) {
		size_t first = 0, last = nbits - 1, used = 1, of = 1, at;
		int failed;

		while (*text && strchr(" \t\n,", *text))
			text++;
		if (!*text)
			return 0;
		if (!strncmp(text, "all", 3)) {
			text += 3;
		} else {
			failed = cmwq_bits_number(&text, nbits, &first);
			last = first;
			if (!failed && *text == '-')
				failed = (text++, cmwq_bits_number(&text, nbits, &last));
			if (failed)
				return failed;
		}
		if (*text == ':') {
			text++;
			failed = cmwq_bits_number(&text, nbits, &used);
			if (failed || *text++ != '/')
				return -EINVAL;
			failed = cmwq_bits_number(&text, nbits, &of);
			if (failed)
				return failed;
		}
		if (first > last || !of || used > of || (*text && !strchr(" \t\n,", *text)))
			return -EINVAL;
		if (last >= nbits)
			return -ERANGE;
		for (at = first; at <= last; at++)
			if ((at - first) % of < used)
				cmwq_bits_set(bits, at);
	}
}

#endif
