/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The first use of the library: what it reads of the machine leaves errno alone, and an error in that is told as such. Its standard error may be gone. */
#include <cmwq.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "../kernel/check.h"

static void run(struct cmwq_work *work)
{
	(void)work;
}

static void stderr_is_a_broken_pipe(void)
{
	struct cmwq_work work = CMWQ_WORK_INIT(run);
	int ends[2], kept = fcntl(2, F_DUPFD_CLOEXEC, 3);

	signal(SIGPIPE, SIG_IGN);
	CHECK(kept >= 0 && pipe(ends) == 0 && close(ends[0]) == 0 && dup2(ends[1], 2) == 2);
	errno = 0;
	CHECK(!cmwq_queue_work(NULL, &work) && errno == EINVAL);
	cmwq_show_all_workqueues();
	cmwq_show_freezable_workqueues();
	cmwq_set_warning_handler(NULL, NULL);
	CHECK(cmwq_flush_workqueue(NULL) == -EINVAL);
	dup2(kept, 2);
}

/* The machine cannot be read: what comes first fails, and what comes later does not. */
static void no_file_is_left(void)
{
	struct rlimit most, none;
	struct cmwq_workqueue *wq;

	CHECK(getrlimit(RLIMIT_NOFILE, &most) == 0);
	none = most;
	none.rlim_cur = 0;
	CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
	errno = 0;
	CHECK(!cmwq_alloc_workqueue("early", CMWQ_WQ_UNBOUND, 0) && errno == EMFILE);
	CHECK(setrlimit(RLIMIT_NOFILE, &most) == 0);
	wq = cmwq_alloc_workqueue("late", CMWQ_WQ_UNBOUND, 0);
	CHECK(wq && cmwq_destroy_workqueue(wq) == 0);
}

int main(int argc, char **argv)
{
	struct cmwq_work work = CMWQ_WORK_INIT(run);

	if (argc > 1 && !strcmp(argv[1], "fails")) {
		errno = 0;
		CHECK(!cmwq_queue_work(cmwq_system_dfl_wq, &work) && errno == EINVAL && !cmwq_work_pending(&work));
		CHECK(cmwq_flush_workqueue(cmwq_system_dfl_wq) == -EINVAL);
		return 0;
	}
	if (argc > 1 && !strcmp(argv[1], "no-files")) {
		no_file_is_left();
		return 0;
	}
	cmwq_disable_work(&work);
	errno = 77;
	CHECK(!cmwq_freeze_workqueues_busy() && errno == 77);
	CHECK(!cmwq_queue_work(cmwq_system_dfl_wq, &work) && errno == 77);
	CHECK(cmwq_enable_and_queue_work(cmwq_system_dfl_wq, &work) && errno == 77);
	cmwq_flush_work(&work);
	CHECK(errno == 77);
	stderr_is_a_broken_pipe();
	return 0;
}
