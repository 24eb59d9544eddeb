/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: parameters of a file
 * that was a module: ordinary variables, which cmwq_set_param() sets by name, in any file of the
 * program. A program that brings its own defines CMWQ_NO_MODULE.
 */
#ifndef CMWQ_LINUX_MODULEPARAM_H
#define CMWQ_LINUX_MODULEPARAM_H

#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_MODULE
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/moduleparam.h"
#include <linux/cmwq_next.h>
#endif

#ifndef CMWQ_NO_MODULE

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
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

#define CMWQ_PARAM_SIGNED(type, is, low, high)                                            \
	static inline int cmwq_param_##type(const char *text, void *value)                \
	{                                                                                 \
		long long number;                                                         \
		int failed = cmwq_param_signed(text, (long long)(low), (long long)(high), \
			&number);                                                         \
		if (!failed)                                                              \
			*(is *)value = (is)number;                                        \
		return failed;                                                            \
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

static inline char *cmwq_param_copy(const char *text)
{
	size_t size = strlen(text) + 1;
	char *copy = (char *)malloc(size);

	return copy ? (char *)memcpy(copy, text, size) : NULL;
}

/* A copy, which stays: what was there before may be in use. */
static inline int cmwq_param_charp(const char *text, void *value)
{
	char *copy = cmwq_param_copy(text);

	if (!copy)
		return -ENOMEM;
	*(char **)value = copy;
	return 0;
}

struct cmwq_param_array {
	int (*set)(const char *text, void *value);
	void *elements;
	size_t size;
	unsigned int most;
	/* NULL is allowed. */
	void *number;
};

/* Numbers with commas between. Those before a wrong one have been set. */
static inline int cmwq_param_array(const char *text, void *value)
{
	const struct cmwq_param_array *array = (const struct cmwq_param_array *)value;
	char *copy = cmwq_param_copy(text), *at = copy;
	unsigned int n = 0;
	int failed = copy ? 0 : -ENOMEM;

	while (at && !failed) {
		char *comma = strchr(at, ',');

		if (comma)
			*comma = '\0';
		failed = n < array->most ? array->set(at, (char *)array->elements + n * array->size)
					 : -EINVAL;
		n += !failed;
		at = comma ? comma + 1 : NULL;
	}
	free(copy);
	if (!failed && array->number)
		*(unsigned int *)array->number = n;
	return failed;
}

struct cmwq_param_string {
	char *text;
	size_t size;
};

static inline int cmwq_param_string(const char *text, void *value)
{
	const struct cmwq_param_string *string = (const struct cmwq_param_string *)value;

	if (strlen(text) >= string->size)
		return -ENOSPC;
	memcpy(string->text, text, strlen(text) + 1);
	return 0;
}

/* ---- set by a function of the program's ---- */

struct kernel_param;

/* `get` and `free` are not called. */
struct kernel_param_ops {
	unsigned int flags;
	int (*set)(const char *text, const struct kernel_param *param);
	int (*get)(char *buffer, const struct kernel_param *param);
	void (*free)(void *arg);
};

struct kernel_param {
	const char *name;
	const struct kernel_param_ops *ops;
	unsigned short perm;
	void *arg;
};

static inline int cmwq_param_by_ops(const char *text, void *value)
{
	const struct kernel_param *param = (const struct kernel_param *)value;

	return param->ops->set(text, param);
}

#define CMWQ_PARAM_OPS(type, format, is)                                                       \
	static inline int param_set_##type(const char *text, const struct kernel_param *param) \
	{                                                                                      \
		return cmwq_param_##type(text, param->arg);                                    \
	}                                                                                      \
	static inline int param_get_##type(char *buffer, const struct kernel_param *param)     \
	{                                                                                      \
		return snprintf(buffer, 4096, format "\n", *(is *)param->arg);                 \
	}                                                                                      \
	static const struct kernel_param_ops param_ops_##type                                  \
		__attribute__((__unused__)) = {0, param_set_##type, param_get_##type, NULL}

CMWQ_PARAM_OPS(byte, "%hhu", unsigned char);
CMWQ_PARAM_OPS(short, "%hd", short);
CMWQ_PARAM_OPS(ushort, "%hu", unsigned short);
CMWQ_PARAM_OPS(int, "%d", int);
CMWQ_PARAM_OPS(uint, "%u", unsigned int);
CMWQ_PARAM_OPS(long, "%ld", long);
CMWQ_PARAM_OPS(ulong, "%lu", unsigned long);
CMWQ_PARAM_OPS(charp, "%s", char *);

static inline int cmwq_param_set_bool(const char *text, const struct kernel_param *param)
{
	return cmwq_param_bool(text, param->arg);
}

static inline int cmwq_param_get_bool(char *buffer, const struct kernel_param *param)
{
	return snprintf(buffer, 4096, "%c\n", *(bool *)param->arg ? 'Y' : 'N');
}

#define param_set_bool(text, param) cmwq_param_set_bool((text), (param))
#define param_get_bool(buffer, param) cmwq_param_get_bool((buffer), (param))
static const struct kernel_param_ops param_ops_bool
	__attribute__((__unused__)) = {0, cmwq_param_set_bool, cmwq_param_get_bool, NULL};

/* All of them lie side by side, in all files of the program. */
#define CMWQ_PARAM(param, set, value)                                                 \
	static const struct cmwq_param cmwq_param_of_##param __attribute__((__used__, \
		__section__("cmwq_params"), __aligned__(8))) = {#param, set, value}
#define module_param_named(param, variable, type, perm) \
	CMWQ_PARAM(param, cmwq_param_as_##type, &(variable))
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
#define module_param_array_named(param, array, type, nump, perm)                                  \
	static const struct cmwq_param_array cmwq_param_array_of_##param = {cmwq_param_as_##type, \
		(array), sizeof((array)[0]), sizeof(array) / sizeof((array)[0]), (nump)};         \
	CMWQ_PARAM(param, cmwq_param_array, (void *)(uintptr_t)&cmwq_param_array_of_##param)
#define module_param_array(name, type, nump, perm) \
	module_param_array_named(name, name, type, nump, perm)
#define module_param_string(param, string, len, perm)                                           \
	static const struct cmwq_param_string cmwq_param_string_of_##param = {(string), (len)}; \
	CMWQ_PARAM(param, cmwq_param_string, (void *)(uintptr_t)&cmwq_param_string_of_##param)
#define module_param_cb(param, functions, argument, perm)                                     \
	static const struct kernel_param cmwq_kernel_param_of_##param = {#param, (functions), \
		(unsigned short)(perm), (argument)};                                          \
	CMWQ_PARAM(param, cmwq_param_by_ops, (void *)(uintptr_t)&cmwq_kernel_param_of_##param)
#define module_param_named_unsafe(param, variable, type, perm) \
	module_param_named(param, variable, type, perm)
#define module_param_unsafe(name, type, perm) module_param(name, type, perm)
#define module_param_hw(name, type, kind, perm) module_param(name, type, perm)
#define core_param(param, variable, type, perm) module_param_named(param, variable, type, perm)
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

/*
 * `assignment`: name=value. -ENOENT: there is no such parameter; -EINVAL, -ERANGE: no such value.
 */
static inline int cmwq_set_param(const char *assignment)
{
	const struct cmwq_param *param;
	const char *value = strchr(assignment, '=');

	for (param = __start_cmwq_params; param != __stop_cmwq_params; param++) {
		size_t length = strlen(param->name);

		if (value && (size_t)(value - assignment) == length &&
			!strncmp(assignment, param->name, length))
			return param->set(value + 1, param->value);
	}
	return -ENOENT;
}

#endif
#endif
