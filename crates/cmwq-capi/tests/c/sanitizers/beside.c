/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Another file of a program: what the headers define for the sanitizer is there once. */
#include <linux/workqueue.h>

bool beside_is_pending(const struct work_struct *work);
bool beside_is_pending(const struct work_struct *work)
{
	return work_pending(work);
}
