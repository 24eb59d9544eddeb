/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: printf() with two
 * formats of the kernel's beside the standard's: %*pb is a set of so many bits as a mask, %*pbl as
 * a list. Other letters behind %p are text.
 */
#ifndef CMWQ_LINUX_CMWQ_FORMAT_H
#define CMWQ_LINUX_CMWQ_FORMAT_H

#include <linux/cmwq_base.h>

#include <linux/cmwq_bitmap_text.h>
#include <stdarg.h>
#include <stdint.h>

#if defined(__GNUC__)
#define CMWQ_FORMATS(at, args) __attribute__((__format__(__printf__, at, args), __unused__))
#else
#define CMWQ_FORMATS(at, args)
#endif

/* Where a conversion is: %[flags][width][.precision][length]letter. */
struct cmwq_conversion {
	const char *end;
	/* How many of width and precision are arguments. */
	int stars;
	/* Such as "l", "ll" or "z". */
	char length[3];
	char letter;
};

static inline struct cmwq_conversion cmwq_conversion_at(const char *percent)
{
	struct cmwq_conversion found = {percent + 1, 0, "", 0};
	size_t length = 0;

	while (*found.end && strchr("-+ #0123456789.*'", *found.end))
		found.stars += *found.end++ == '*';
	while (*found.end && strchr("hlzjtL", *found.end)) {
		if (length < 2)
			found.length[length++] = *found.end;
		found.end++;
	}
	found.letter = *found.end;
	if (found.letter)
		found.end++;
	return found;
}

/* One conversion by the C library: what it is called with depends on the argument's type. */
#define CMWQ_FORMAT_ONE(type)                                                                \
	(stars == 2 ? cmwq_put(text, size, at, one, star[0], star[1], va_arg(args, type))    \
			: stars ? cmwq_put(text, size, at, one, star[0], va_arg(args, type)) \
				: cmwq_put(text, size, at, one, va_arg(args, type)))

CMWQ_FORMATS(3, 0)
static int cmwq_vsnprintf(char *text, size_t size, const char *format, va_list list)
{
	size_t at = 0;
	va_list args;

	if (!strstr(format, "pb"))
		return vsnprintf(text, size, format, list);
	if (size)
		*text = '\0';
	va_copy(args, list);
	while (*format) {
		const char *percent = strchr(format, '%');
		size_t plain = percent ? (size_t)(percent - format) : strlen(format);
		struct cmwq_conversion found;
		int star[2] = {0, 0}, stars, i;
		char one[64];

		at = cmwq_put(text, size, at, "%.*s", (int)plain, format);
		if (!percent)
			break;
		found = cmwq_conversion_at(percent);
		stars = found.stars < 2 ? found.stars : 2;
		format = found.end;
		for (i = 0; i < stars; i++)
			star[i] = va_arg(args, int);
		snprintf(one, sizeof(one), "%.*s", (int)(found.end - percent), percent);
		if (found.letter == 'p' && *format == 'b') {
			const unsigned long *bits = va_arg(args, const unsigned long *);
			bool list_of = *++format == 'l';
			size_t room = at < size ? size - at : 0;

			format += list_of;
			at += (list_of ? cmwq_bits_list : cmwq_bits_mask)(room ? text + at : NULL,
				room, bits, (size_t)(star[0] > 0 ? star[0] : 0));
			continue;
		}
		switch (found.letter) {
		case 'd': case 'i': case 'u': case 'x': case 'X': case 'o': case 'c':
			if (!strcmp(found.length, "ll"))
				at = CMWQ_FORMAT_ONE(long long);
			else if (!strcmp(found.length, "l"))
				at = CMWQ_FORMAT_ONE(long);
			else if (!strcmp(found.length, "z") || !strcmp(found.length, "t"))
				at = CMWQ_FORMAT_ONE(size_t);
			else if (!strcmp(found.length, "j"))
				at = CMWQ_FORMAT_ONE(intmax_t);
			else
				at = CMWQ_FORMAT_ONE(int);
			break;
		case 'e': case 'E': case 'f': case 'F': case 'g': case 'G': case 'a': case 'A':
			if (!strcmp(found.length, "L"))
				at = CMWQ_FORMAT_ONE(long double);
			else
				at = CMWQ_FORMAT_ONE(double);
			break;
		case 's':
			at = CMWQ_FORMAT_ONE(const char *);
			break;
		case 'p':
			at = CMWQ_FORMAT_ONE(void *);
			break;
		case '%':
			at = cmwq_put(text, size, at, "%%");
			break;
		default:
			/*
			 * The function does not know this conversion, and writes it as it stands.
			 */
			at = cmwq_put(text, size, at, "%s", one);
			break;
		}
	}
	va_end(args);
	return (int)at;
}
#undef CMWQ_FORMAT_ONE

CMWQ_FORMATS(3, 4)
static int cmwq_snprintf(char *text, size_t size, const char *format, ...)
{
	va_list args;
	int length;

	va_start(args, format);
	length = cmwq_vsnprintf(text, size, format, args);
	va_end(args);
	return length;
}

/* The text is in memory from malloc(); NULL: malloc() has none. */
CMWQ_FORMATS(1, 0)
static CMWQ_MUST_CHECK char *cmwq_vasprintf(const char *format, va_list args)
{
	va_list again;
	int length;
	char *text;

	va_copy(again, args);
	length = cmwq_vsnprintf(NULL, 0, format, again);
	va_end(again);
	text = (char *)malloc((size_t)length + 1);
	if (text)
		cmwq_vsnprintf(text, (size_t)length + 1, format, args);
	return text;
}

/* Writes one message to standard error, and cuts it behind 1023 bytes. */
CMWQ_FORMATS(1, 2)
static int cmwq_printk(const char *format, ...)
{
	char text[1024];
	va_list args;
	int length;

	va_start(args, format);
	length = cmwq_vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	fputs(text, stderr);
	return length;
}

#endif
