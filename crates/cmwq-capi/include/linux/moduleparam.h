/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Kernel-shaped, for user space; part of cmwq: parameters of a file that was a module: ordinary variables, which cmwq_set_param() sets
 * by name, in any file of the program. A program that brings its own defines CMWQ_NO_MODULE.
 */
#ifndef CMWQ_LINUX_MODULEPARAM_H
#define CMWQ_LINUX_MODULEPARAM_H

/* Silences -Wpedantic for include_next. */
#if defined(__GNUC__)
#pragma GCC system_header
#endif
#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_MODULE
#if defined(__has_include_next)
#if __has_include_next(<linux/moduleparam.h>)
#include_next <linux/moduleparam.h>
#endif
#endif
#endif

#ifndef CMWQ_NO_MODULE

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* What `name=value` sets. */
struct cmwq_param {
	const char *name;
	int (*set)(const char *text, void *value);
	void *value;
};

typedef char *charp;
typedef bool invbool;

static inline int cmwq_param_signed(const char *text, long long low, long long high, long long *to)
{
	char *end;

	errno = 0;
	*to = strtoll(text, &end, 0);
	if (end == text || (*end && *end != '\n'))
		return -EINVAL;
	return errno || *to < low || *to > high ? -ERANGE : 0;
}

#define CMWQ_PARAM_SIGNED(type, is, low, high)                                                        \
	static inline int cmwq_param_##type(const char *text, void *value)                            \
	{                                                                                             \
		long long number;                                                                     \
		int failed = cmwq_param_signed(text, (long long)(low), (long long)(high), &number);  \
		if (!failed)                                                                          \
			*(is *)value = (is)number;                                                    \
		return failed;                                                                        \
	}

CMWQ_PARAM_SIGNED(byte, unsigned char, 0, 255)
CMWQ_PARAM_SIGNED(short, short, -32768, 32767)
CMWQ_PARAM_SIGNED(ushort, unsigned short, 0, 65535)
CMWQ_PARAM_SIGNED(int, int, -2147483647 - 1, 2147483647)
CMWQ_PARAM_SIGNED(uint, unsigned int, 0, 4294967295u)
CMWQ_PARAM_SIGNED(long, long, -__LONG_MAX__ - 1, __LONG_MAX__)

static inline int cmwq_param_ulong(const char *text, void *value)
{
	char *end;
	unsigned long number;

	errno = 0;
	number = strtoul(text, &end, 0);
	if (end == text || *text == '-' || (*end && *end != '\n'))
		return -EINVAL;
	if (errno)
		return -ERANGE;
	*(unsigned long *)value = number;
	return 0;
}

static inline int cmwq_param_bool(const char *text, void *value)
{
	if (strchr("1yY", *text) && *text)
		*(bool *)value = true;
	else if (strchr("0nN", *text) && *text)
		*(bool *)value = false;
	else
		return -EINVAL;
	return 0;
}

static inline int cmwq_param_invbool(const char *text, void *value)
{
	int failed = cmwq_param_bool(text, value);

	if (!failed)
		*(bool *)value = !*(bool *)value;
	return failed;
}

/* The text must stay. */
static inline int cmwq_param_charp(const char *text, void *value)
{
	*(const char **)value = text;
	return 0;
}

/* All of them lie side by side, in all files of the program. */
#define module_param_named(param, variable, type, perm)                                                         \
	static const struct cmwq_param cmwq_param_of_##param                                                   \
		__attribute__((__used__, __section__("cmwq_params"), __aligned__(8))) = {#param, cmwq_param_as_##type, &(variable)}
#define cmwq_param_as_byte cmwq_param_byte
#define cmwq_param_as_short cmwq_param_short
#define cmwq_param_as_ushort cmwq_param_ushort
#define cmwq_param_as_int cmwq_param_int
#define cmwq_param_as_uint cmwq_param_uint
#define cmwq_param_as_long cmwq_param_long
#define cmwq_param_as_ulong cmwq_param_ulong
#define cmwq_param_as_bool cmwq_param_bool
/* <stdbool.h> of C makes a macro of bool. */
#define cmwq_param_as__Bool cmwq_param_bool
#define cmwq_param_as_invbool cmwq_param_invbool
#define cmwq_param_as_charp cmwq_param_charp
#undef module_param
#define module_param(name, type, perm) module_param_named(name, name, type, perm)
#ifndef MODULE_PARM_DESC
#define MODULE_PARM_DESC(name, text) int init_module(void)
#endif

#ifdef __cplusplus
extern "C" {
#endif
extern const struct cmwq_param __start_cmwq_params[] __attribute__((__weak__));
extern const struct cmwq_param __stop_cmwq_params[] __attribute__((__weak__));
#ifdef __cplusplus
}
#endif

/* `assignment`: name=value. -ENOENT: there is no such parameter; -EINVAL, -ERANGE: no such value. */
static inline int cmwq_set_param(const char *assignment)
{
	const struct cmwq_param *param;
	const char *value = strchr(assignment, '=');

	for (param = __start_cmwq_params; param != __stop_cmwq_params; param++) {
		size_t length = strlen(param->name);

		if (value && (size_t)(value - assignment) == length && !strncmp(assignment, param->name, length))
			return param->set(value + 1, param->value);
	}
	return -ENOENT;
}

#endif
#endif
