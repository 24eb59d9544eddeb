/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: texts that grow: what
 * functions write to show something. The program makes one with zeros and takes the text out of it.
 * A program that brings its own defines CMWQ_NO_FS.
 */
#ifndef CMWQ_LINUX_SEQ_FILE_H
#define CMWQ_LINUX_SEQ_FILE_H

#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_FS
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/seq_file.h"
#include <linux/cmwq_next.h>
#endif

#ifndef CMWQ_NO_FS

#include <linux/cmwq_format.h>
#include <stdbool.h>

/* A word of C++. */
#ifdef __cplusplus
#define CMWQ_SEQ_PRIVATE private_
#else
#define CMWQ_SEQ_PRIVATE private
#endif

/* Zeros are an empty one. `buf` is from malloc(), and ends with a 0. */
struct seq_file {
	char *buf;
	size_t size, count;
	void *CMWQ_SEQ_PRIVATE;
};

/* false: no memory; the text is as it was. */
static inline bool cmwq_seq_room(struct seq_file *seq, size_t more)
{
	size_t size = seq->size ? seq->size : 256;
	char *buf;

	while (size - seq->count <= more)
		size *= 2;
	if (size == seq->size)
		return true;
	buf = (char *)realloc(seq->buf, size);
	if (!buf)
		return false;
	seq->buf = buf;
	seq->size = size;
	return true;
}

/* 0, or -1: no memory. */
static inline int seq_write(struct seq_file *seq, const void *text, size_t size)
{
	if (!cmwq_seq_room(seq, size))
		return -1;
	memcpy(seq->buf + seq->count, text, size);
	seq->count += size;
	seq->buf[seq->count] = '\0';
	return 0;
}

CMWQ_FORMATS(2, 0)
static void seq_vprintf(struct seq_file *seq, const char *format, va_list args)
{
	va_list again;
	int length;

	va_copy(again, args);
	length = cmwq_vsnprintf(NULL, 0, format, again);
	va_end(again);
	if (length >= 0 && cmwq_seq_room(seq, (size_t)length)) {
		cmwq_vsnprintf(seq->buf + seq->count, (size_t)length + 1, format, args);
		seq->count += (size_t)length;
	}
}

CMWQ_FORMATS(2, 3)
static void seq_printf(struct seq_file *seq, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	seq_vprintf(seq, format, args);
	va_end(args);
}

static inline void seq_puts(struct seq_file *seq, const char *text)
{
	seq_write(seq, text, strlen(text));
}

static inline void seq_putc(struct seq_file *seq, char c)
{
	seq_write(seq, &c, 1);
}

/* What DEFINE_SHOW_ATTRIBUTE() makes of name_show() is name_fops, for debugfs_create_file(). */
struct file_operations {
	int (*cmwq_show)(struct seq_file *seq, void *data);
};
#define DEFINE_SHOW_ATTRIBUTE(name) \
	static const struct file_operations name##_fops __attribute__((__unused__)) = {name##_show}

#endif
#endif
