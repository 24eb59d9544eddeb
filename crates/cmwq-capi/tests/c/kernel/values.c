/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Functions of nothing but their arguments: numbers, texts, sets of CPUs, limits of rates.
 *
 * Seen to fail with: cpumask_local_spread() that ends after the last CPU; a rate without its burst; a splice that leaves a link back; int_sqrt() of
 * squares; WARN_ONCE() without its text.
 */
#include <linux/bug.h>
#include <linux/compiler.h>
#include <linux/cpumask.h>
#include <linux/math.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/overflow.h>
#include <linux/random.h>
#include <linux/ratelimit.h>
#include <linux/rculist.h>
#include <linux/string.h>
#include <linux/sysfs.h>
#include <linux/topology.h>
#include <unistd.h>

#include "check.h"

static void numbers(void)
{
	u64 rest;
	int i;

	CHECK(min_not_zero(0, 4) == 4 && min_not_zero(3, 0) == 3 && min_not_zero(3, 4) == 3 && min_not_zero(0u, 0u) == 0);
	CHECK(umin(3, 4u) == 3 && umax(3, 4ul) == 4 && MIN(1, 2) == 1 && MAX(1, 2) == 2);
	CHECK(in_range(5, 5, 1) && !in_range(6, 5, 1) && !in_range(4, 5, 10));
	CHECK(abs(-5L) == 5L && abs(-(1LL << 40)) == 1LL << 40 && abs_diff(3u, 5u) == 2 && abs_diff(5u, 3u) == 2);
	CHECK(DIV_ROUND_CLOSEST_ULL(7ull, 2) == 4 && DIV64_U64_ROUND_UP(7, 4) == 2 && DIV64_U64_ROUND_CLOSEST(5, 4) == 1);
	for (i = 0; i < 100000; i++)
		CHECK(int_sqrt((unsigned long)i) * int_sqrt((unsigned long)i) <= (unsigned long)i &&
		      (int_sqrt((unsigned long)i) + 1) * (int_sqrt((unsigned long)i) + 1) > (unsigned long)i);
	CHECK(int_sqrt(~0ul) == 0xffffffffu && int_pow(10, 3) == 1000 && int_pow(7, 0) == 1);
	CHECK(reciprocal_scale(0, 10) == 0 && reciprocal_scale(~0u, 10) == 9);
	CHECK(div64_s64(-7, 2) == -3 && div64_u64_rem(23, 5, &rest) == 4 && rest == 3);
	CHECK(mul_u64_u64_div_u64(1ull << 60, 1ull << 20, 1ull << 30) == 1ull << 50 && mul_u64_u32_shr(1ull << 62, 1u << 31, 33) == 1ull << 60);
	CHECK(mul_u32_u32(1u << 31, 4) == 1ull << 33);
	CHECK(size_sub(5, 3) == 2 && size_sub(3, 5) == SIZE_MAX && size_sub(SIZE_MAX, 5) == SIZE_MAX);
	for (i = 0; i < 1000; i++)
		CHECK(get_random_u32_below(10) < 10 && get_random_u32_inclusive(3, 5) - 3 <= 2);
	CHECK(get_random_u64() != get_random_u64() || get_random_u64() != get_random_u64());
}

static void texts(void)
{
	static const char *const names[] = {"cpu", "smt", "cache", NULL};
	char text[8], full[4] = "ab";

	memset(text, 'x', sizeof(text));
	CHECK(strscpy_pad(text, "abc") == 3 && !memchr_inv(text + 3, 0, 5) && strscpy_pad(full, "abcd") == -E2BIG && !strcmp(full, "abc"));
	CHECK(strlcat(text, "def", sizeof(text)) == 6 && strlcat(text, "gh", sizeof(text)) == 8 && !strcmp(text, "abcdefg"));
	CHECK(!strcmp(strreplace(text, 'a', '!'), "!bcdefg"));
	CHECK(str_has_prefix("numa=off", "numa=") == 5 && str_has_prefix("nu", "numa") == 0 && strstarts("numa", "nu"));
	CHECK(!strcmp(kbasename("/sys/x"), "x") && !strcmp(kbasename("x"), "x"));
	CHECK((char *)memchr_inv(text, '!', sizeof(text)) == text + 1);
	memzero_explicit(text, sizeof(text));
	CHECK(!memchr_inv(text, 0, sizeof(text)));
	CHECK(sysfs_match_string(names, "smt\n") == 1 && match_string(names, 4, "smt\n") == -EINVAL && match_string(names, 3, "cache") == 2);
}

static void cpus(void)
{
	static const struct cpumask all = CPU_MASK_ALL;
	struct cpumask a, b, both;
	unsigned int i, n = num_online_cpus();

	cpumask_clear(&a);
	cpumask_clear(&b);
	cpumask_assign_cpu(1, &a, true);
	cpumask_assign_cpu(70, &a, true);
	cpumask_assign_cpu(70, &b, true);
	CHECK(cpumask_full(&all) && cpumask_weight_andnot(&a, &b) == 1 && cpumask_first_andnot(&a, &b) == 1);
	CHECK(cpumask_next_andnot(1, &a, &b) >= nr_cpu_ids && cpumask_nth_andnot(0, &a, &b) == 1);
	CHECK(cpumask_any_and_but(&a, &b, 3) == 70 && cpumask_any_and_but(&a, &b, 70) >= nr_cpu_ids);
	CHECK(cpumask_or_equal(&a, &b, &a) && !cpumask_or_equal(&a, &b, &b));
	cpumask_assign_cpu(1, &a, false);
	CHECK(cpumask_equal(&a, &b) && cpu_is_offline(NR_CPUS - 1));
	/* Each of them once, and then from the first again. */
	cpumask_clear(&both);
	for (i = 0; i < n; i++) {
		CHECK(!cpumask_test_cpu(cpumask_local_spread(i, 0), &both));
		cpumask_set_cpu(cpumask_local_spread(i, 0), &both);
	}
	CHECK(cpumask_equal(&both, cpu_online_mask) && cpumask_local_spread(n, NUMA_NO_NODE) == cpumask_first(cpu_online_mask));
	/* A node without CPUs has all of them equally far. */
	CHECK(cpumask_local_spread(0, MAX_NUMNODES - 1) == cpumask_first(cpu_online_mask));
}

struct number {
	struct list_head entry;
	struct hlist_node node;
	int value;
};

static int nr_synced;

static void sync_readers(void)
{
	nr_synced++;
}

static void lists(void)
{
	static struct number numbers[4] = {{.value = 0}, {.value = 1}, {.value = 2}, {.value = 3}};
	LIST_HEAD(head);
	LIST_HEAD(more);
	HLIST_HEAD(nodes);
	struct number *at;
	int i = 0;

	list_add_tail_rcu(&numbers[2].entry, &head);
	list_add_tail_rcu(&numbers[0].entry, &more);
	list_add_tail_rcu(&numbers[1].entry, &more);
	list_splice_init_rcu(&more, &head, sync_readers);
	list_splice_init_rcu(&more, &head, sync_readers);
	CHECK(nr_synced == 1 && list_empty(&more));
	list_for_each_entry_rcu(at, &head, entry)
		CHECK(at->value == i++);
	CHECK(i == 3 && list_next_or_null_rcu(&head, &numbers[1].entry, struct number, entry) == &numbers[2]);
	CHECK(!list_next_or_null_rcu(&head, &numbers[2].entry, struct number, entry));
	at = &numbers[1];
	list_for_each_entry_from_rcu(at, &head, entry)
		i++;
	CHECK(i == 5 && head.prev == &numbers[2].entry && numbers[0].entry.prev == &head);
	hlist_add_head_rcu(&numbers[1].node, &nodes);
	hlist_add_behind_rcu(&numbers[3].node, &numbers[1].node);
	hlist_add_before_rcu(&numbers[2].node, &numbers[3].node);
	hlist_add_before_rcu(&numbers[0].node, &numbers[1].node);
	i = 0;
	hlist_for_each_entry_rcu(at, &nodes, node)
		CHECK(at->value == i++);
	CHECK(i == 4);
	hlist_del_rcu(&numbers[2].node);
	CHECK(numbers[1].node.next == &numbers[3].node && numbers[3].node.pprev == &numbers[1].node.next);
}

static int nr_asked;

static bool asked(void)
{
	nr_asked++;
	return true;
}

static void rates(void)
{
	DEFINE_RATELIMIT_STATE(limit, 3600 * HZ, 3);
	struct ratelimit_state none;
	int i, n = 0;

	for (i = 0; i < 10; i++)
		n += __ratelimit(&limit);
	CHECK(n == 3 && limit.missed == 7);
	ratelimit_state_init(&none, 0, 0);
	CHECK(__ratelimit(&none) && __ratelimit(&none));
	ratelimit_state_init(&limit, 1, 1);
	CHECK(__ratelimit(&limit));
	/* The interval ends. */
	CHECK_SOON(n == 100 || (__ratelimit(&limit) && (n = 100)));
	ratelimit_default_init(&limit);
	ratelimit_set_flags(&limit, 0);
	CHECK(limit.burst == 10 && limit.interval == 5 * HZ);
	for (i = 0; i < 3; i++)
		CHECK(WARN_RATELIMIT(asked() && i > 1, "it is %d\n", i) == (i > 1));
	CHECK(nr_asked == 3);
	for (i = 0; i < 3; i++)
		pr_info_ratelimited("said\n");
	no_printk("never %d\n", nr_asked);
}

static int arguments(void)
{
	static int asked_for;

	return ++asked_for;
}

/* The text, the first time only. */
static void said_once(void)
{
	int i, kept = dup(2), fds[2];
	char text[512] = "";

	CHECK(kept >= 0 && !pipe(fds) && dup2(fds[1], 2) == 2);
	for (i = 0; i < 3; i++)
		CHECK(WARN_ONCE(i > 0, "argument %d\n", arguments()) == (i > 0));
	CHECK(dup2(kept, 2) == 2);
	CHECK(read(fds[0], text, sizeof(text) - 1) > 0 && strstr(text, "values.c") && strstr(text, "argument 1\n"));
	CHECK(arguments() == 2);
	close(kept);
	close(fds[0]);
	close(fds[1]);
}

int main(void)
{
	int __UNIQUE_ID(mine) __maybe_unused = 0, __UNIQUE_ID(mine) __maybe_unused = 0, hidden = 3;

	BUILD_BUG_ON(L1_CACHE_BYTES != SMP_CACHE_BYTES || sizeof(sector_t) != 8);
	OPTIMIZER_HIDE_VAR(hidden);
	ASSERT_EXCLUSIVE_WRITER(hidden);
	CHECK(hidden == 3 && _RET_IP_);
	numbers();
	texts();
	cpus();
	lists();
	rates();
	said_once();
	return 0;
}
