/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Signals and work functions: a fault handler of the program runs; what a work function starts has the mask of the thread that used the
 * library first, so that it dies of SIGTERM and a pipeline of SIGPIPE; with CMWQ_THREADS_BLOCK_SIGNALS a child that resets its mask does.
 */
#define _GNU_SOURCE
#include <cmwq.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static char *page;
static volatile sig_atomic_t faults;
static int status;

static void on_fault(int signal, siginfo_t *info, void *context)
{
	(void)signal;
	(void)context;
	faults++;
	/* The store is made again, and succeeds. */
	if (info->si_addr != page || mprotect(page, 1, PROT_READ | PROT_WRITE))
		_exit(20);
}

static void faulty(struct cmwq_work *work)
{
	(void)work;
	*(volatile char *)page = 7;
}

static bool resets;

static void parent(struct cmwq_work *work)
{
	pid_t pid = fork();

	(void)work;
	if (pid == 0) {
		if (resets && cmwq_reset_signal_mask())
			_exit(21);
		execlp("sh", "sh", "-c", "kill -TERM $$; exit 22", (char *)NULL);
		_exit(23);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		status = -1;
}

/* `yes` writes into a pipe whose reader goes away. */
static void pipeline(struct cmwq_work *work)
{
	int ends[2];
	char byte;
	pid_t pid;

	(void)work;
	status = -1;
	if (pipe(ends))
		return;
	pid = fork();
	if (pid == 0) {
		dup2(ends[1], 1);
		close(ends[0]);
		close(ends[1]);
		execlp("yes", "yes", (char *)NULL);
		_exit(25);
	}
	close(ends[1]);
	if (read(ends[0], &byte, 1) != 1)
		return;
	close(ends[0]);
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		status = -1;
}

static void spawner(struct cmwq_work *work)
{
	char *argv[] = {"sh", "-c", "kill -TERM $$; exit 24", NULL};
	pid_t pid;

	(void)work;
	if (posix_spawnp(&pid, "sh", NULL, NULL, argv, environ) || waitpid(pid, &status, 0) != pid)
		status = -1;
}

static bool ended_by(int signal)
{
	if (WIFSIGNALED(status) && WTERMSIG(status) == signal)
		return true;
	fprintf(stderr, "a child ended with status %#x\n", (unsigned int)status);
	return false;
}

static void run(struct cmwq_workqueue *wq, cmwq_work_fn func)
{
	struct cmwq_work work;

	cmwq_init_work(&work, func);
	cmwq_queue_work(wq, &work);
	cmwq_flush_work(&work);
}

int main(void)
{
	struct cmwq_thread_attrs attrs = CMWQ_THREAD_ATTRS_INIT;
	struct cmwq_workqueue_options options = CMWQ_WORKQUEUE_OPTIONS_INIT;
	struct cmwq_workqueue *wq = cmwq_alloc_workqueue("signals", CMWQ_WQ_UNBOUND, 0);
	struct cmwq_workqueue *blocks;
	struct cmwq_threads *threads;
	struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};

	page = mmap(NULL, 1, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!wq || page == MAP_FAILED || sigaction(SIGSEGV, &action, NULL))
		return 1;
	alarm(60);
	run(wq, faulty);
	if (faults != 1 || *page != 7) {
		fprintf(stderr, "%d faults were handled\n", (int)faults);
		return 2;
	}
	run(wq, parent);
	if (!ended_by(SIGTERM))
		return 3;
	run(wq, spawner);
	if (!ended_by(SIGTERM))
		return 4;
	run(wq, pipeline);
	if (!ended_by(SIGPIPE))
		return 5;
	attrs.flags = CMWQ_THREADS_BLOCK_SIGNALS;
	options.threads = threads = cmwq_alloc_threads(&attrs);
	blocks = cmwq_alloc_workqueue_with("blocks", CMWQ_WQ_UNBOUND, 0, &options);
	if (!threads || !blocks)
		return 6;
	run(blocks, parent);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 22) {
		fprintf(stderr, "signals are not blocked: %#x\n", (unsigned int)status);
		return 7;
	}
	resets = true;
	run(blocks, parent);
	if (!ended_by(SIGTERM))
		return 8;
	cmwq_destroy_workqueue(blocks);
	cmwq_free_threads(threads);
	cmwq_destroy_workqueue(wq);
	return 0;
}
