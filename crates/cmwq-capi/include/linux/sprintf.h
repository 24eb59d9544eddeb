/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: texts into buffers, with
 * the formats %*pb and %*pbl for sets of bits. In C++ snprintf() is the standard's, which has not.
 * A program that brings its own defines CMWQ_NO_PRINTK.
 */
#ifndef CMWQ_LINUX_SPRINTF_H
#define CMWQ_LINUX_SPRINTF_H

#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_PRINTK
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/sprintf.h"
#include <linux/cmwq_next.h>
#endif

#ifndef CMWQ_NO_PRINTK

#include <linux/cmwq_format.h>
#include <sys/types.h>

#ifndef __cplusplus
#undef snprintf
#undef vsnprintf
#define snprintf(...) cmwq_snprintf(__VA_ARGS__)
#define vsnprintf(text, size, format, args) cmwq_vsnprintf((text), (size), (format), (args))
#endif

CMWQ_FORMATS(3, 0)
static int vscnprintf(char *text, size_t size, const char *format, va_list args)
{
	int length = cmwq_vsnprintf(text, size, format, args);

	return (size_t)length < size ? length : size ? (int)size - 1 : 0;
}

/* How much was written, without the 0 at the end. */
CMWQ_FORMATS(3, 4)
static int scnprintf(char *text, size_t size, const char *format, ...)
{
	va_list args;
	int length;

	va_start(args, format);
	length = vscnprintf(text, size, format, args);
	va_end(args);
	return length;
}

#define kvasprintf(flags, format, args) cmwq_vasprintf((format), (args))

/* Memory for kfree(). */
CMWQ_FORMATS(2, 3)
static CMWQ_MUST_CHECK char *kasprintf(unsigned int flags, const char *format, ...)
{
	va_list args;
	char *text;

	(void)flags;
	va_start(args, format);
	text = cmwq_vasprintf(format, args);
	va_end(args);
	return text;
}

#endif
#endif
