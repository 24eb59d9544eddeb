/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Three functions run as items; the thread that has queued them takes their results. */
#include <cmwq.h>
#include <stdio.h>

static int64_t square(void *number)
{
	int n = *(const int *)number;

	return n * n;
}

int main(void)
{
	int numbers[] = {2, 3, 4};
	struct cmwq_cqe entries[8];
	struct cmwq_workqueue *wq;
	struct cmwq_cq *cq;
	int64_t sum = 0;
	int left = 3;

	wq = cmwq_alloc_workqueue("squares", CMWQ_WQ_UNBOUND, 0);
	cq = cmwq_cq_create(0, 0);
	if (!wq || !cq)
		return 1;
	for (int i = 0; i < 3; i++)
		if (cmwq_cq_execute(cq, wq, square, &numbers[i], i))
			return 1;
	while (left > 0) {
		size_t n = cmwq_cq_wait(cq, entries, 8);

		for (size_t i = 0; i < n; i++)
			sum += entries[i].result;
		left -= (int)n;
	}
	printf("the sum is %lld\n", (long long)sum);
	cmwq_cq_destroy(cq);
	return cmwq_destroy_workqueue(wq) ? 1 : 0;
}
