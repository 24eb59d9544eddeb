/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Lists of all kinds; those without a lock under threads. */
#include <linux/kernel.h>
#include <linux/list.h>
#include <linux/llist.h>
#include <linux/sort.h>
#include <pthread.h>
#include <string.h>

#include "check.h"

struct node {
	int n;
	struct list_head link;
	struct hlist_node hash;
	struct llist_node lock_free;
};

static struct node nodes[10];

static void are(struct list_head *head, const char *expected)
{
	struct node *node;
	char text[32];
	int i = 0;

	list_for_each_entry(node, head, link)
		text[i++] = (char)('0' + node->n);
	text[i] = '\0';
	CHECK(!strcmp(text, expected));
	list_for_each_entry_reverse(node, head, link)
		CHECK(text[--i] == (char)('0' + node->n));
}

static void doubly_linked(void)
{
	struct node *node, *next;
	int i;

	LIST_HEAD(head);
	LIST_HEAD(other);

	for (i = 0; i < 6; i++) {
		nodes[i].n = i;
		list_add_tail(&nodes[i].link, &head);
	}
	list_rotate_left(&head);
	are(&head, "123450");
	list_swap(&nodes[1].link, &nodes[2].link);
	are(&head, "213450");
	list_swap(&nodes[2].link, &nodes[5].link);
	are(&head, "513420");
	list_cut_position(&other, &head, &nodes[3].link);
	are(&other, "513");
	are(&head, "420");
	list_splice_tail(&other, &head);
	are(&head, "420513");
	nodes[9].n = 9;
	list_replace(&nodes[0].link, &nodes[9].link);
	are(&head, "429513");
	list_bulk_move_tail(&head, &nodes[2].link, &nodes[9].link);
	are(&head, "451329");
	CHECK(list_count_nodes(&head) == 6 && list_is_first(&nodes[4].link, &head) && list_is_last(&nodes[9].link, &head));
	list_for_each_entry_safe_reverse(node, next, &head, link)
		if (node->n % 2)
			list_del_init(&node->link);
	are(&head, "42");
	CHECK(list_empty_careful(&nodes[9].link) && !list_empty_careful(&head));
}

static void singly_linked_heads(void)
{
	struct node *node;
	struct hlist_node *next;
	int i, sum = 0;

	HLIST_HEAD(head);
	HLIST_HEAD(moved);

	for (i = 0; i < 5; i++)
		hlist_add_head(&nodes[i].hash, &head);
	hlist_add_before(&nodes[7].hash, &nodes[2].hash);
	hlist_add_behind(&nodes[8].hash, &nodes[0].hash);
	nodes[7].n = 7;
	nodes[8].n = 8;
	hlist_move_list(&head, &moved);
	CHECK(hlist_empty(&head));
	i = 0;
	hlist_for_each_entry(node, &moved, hash)
		i = i * 10 + node->n;
	CHECK(i == 4372108);
	hlist_for_each_entry_safe(node, next, &moved, hash) {
		sum += node->n;
		hlist_del_init(&node->hash);
	}
	CHECK(sum == 25 && hlist_empty(&moved) && hlist_unhashed(&nodes[7].hash));
}

enum { THREADS = 4, EACH = 50000 };

static struct llist_head shared = LLIST_HEAD_INIT(shared);
static int firsts;

static void *add(void *arg)
{
	int i;

	for (i = 0; i < EACH; i++) {
		struct node *node = (struct node *)malloc(sizeof(*node));

		node->n = i;
		if (llist_add(&node->lock_free, &shared))
			__atomic_fetch_add(&firsts, 1, __ATOMIC_RELAXED);
	}
	return arg;
}

static void without_a_lock(void)
{
	pthread_t threads[THREADS];
	long long sum = 0;
	int i, count = 0, taken = 0;

	for (i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&threads[i], NULL, add, NULL));
	while (count < THREADS * EACH) {
		struct llist_node *all = llist_del_all(&shared);
		struct node *node, *next;

		taken += all != NULL;
		all = llist_reverse_order(all);
		llist_for_each_entry_safe(node, next, all, lock_free) {
			count++;
			sum += node->n;
			free(node);
		}
	}
	for (i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	CHECK(sum == (long long)THREADS * EACH * (EACH - 1) / 2 && taken == firsts && llist_empty(&shared));
	CHECK(!llist_del_first(&shared));
}

static int ascending(const void *a, const void *b)
{
	u64 x = *(const u64 *)a, y = *(const u64 *)b;

	return x < y ? -1 : x > y;
}

static int swaps;

static void swap_them(void *a, void *b, int size)
{
	u64 kept = *(u64 *)a;

	CHECK(size == sizeof(u64));
	*(u64 *)a = *(u64 *)b;
	*(u64 *)b = kept;
	swaps++;
}

static void sorting(void)
{
	static u64 numbers[1000];
	u64 seed = 42, sum = 0;
	int n, i, round;

	for (n = 0; n < 1000; n += 37) {
		for (round = 0; round < 2; round++) {
			for (i = 0, sum = 0; i < n; i++) {
				seed = seed * 6364136223846793005ull + 1442695040888963407ull;
				sum += numbers[i] = seed >> (round ? 61 : 20);
			}
			sort(numbers, (size_t)n, sizeof(numbers[0]), ascending, round ? swap_them : NULL);
			for (i = 0; i < n; i++) {
				sum -= numbers[i];
				CHECK(!i || numbers[i - 1] <= numbers[i]);
			}
			CHECK(sum == 0);
		}
	}
	CHECK(swaps > 1000);
}

int main(void)
{
	doubly_linked();
	singly_linked_heads();
	without_a_lock();
	sorting();
	return 0;
}
