/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Completions and completion queues in C++. Part of <cmwq.hpp>, which includes it. */
#ifndef CMWQ_HPP
#include "cmwq.hpp"
#elif !defined(CMWQ_CQ_HPP)
#define CMWQ_CQ_HPP

namespace cmwq {

/* An event that items signal and others wait for; counts. Stays where it is. */
class completion {
public:
	completion() = default;
	completion(const completion &) = delete;
	completion &operator=(const completion &) = delete;

	/* Lets one waiter go on, now or later. */
	void complete() { cmwq_complete(&done_); }
	/* Lets all go on, until reinit(). */
	void complete_all() { cmwq_complete_all(&done_); }
	/* Makes it not done. No thread may wait meanwhile. */
	void reinit() { cmwq_reinit_completion(&done_); }
	/* Waits; in a work item another item runs meanwhile. */
	void wait() { cmwq_wait_for_completion(&done_); }
	/* The same, for `timeout` at most. false: it was not done. */
	[[nodiscard]] bool wait_for(std::chrono::nanoseconds timeout)
	{
		return cmwq_wait_for_completion_timeout_ns(&done_, detail::nanoseconds(timeout));
	}
	/* The same, without waiting. */
	[[nodiscard]] bool try_wait() { return cmwq_try_wait_for_completion(&done_); }
	/* Whether a wait would return at once. */
	bool done() const { return cmwq_completion_done(&done_); }
	cmwq_completion *native_handle() { return &done_; }

private:
	cmwq_completion done_ = CMWQ_COMPLETION_INIT;
};

namespace detail {

/* Whether a completion queue can post what `CmwqF` returns: an integer, or nothing. */
template <typename CmwqF> constexpr bool is_posted()
{
	if constexpr (std::is_invocable_v<CmwqF>) {
		using CmwqR = std::invoke_result_t<CmwqF>;

		return std::is_void_v<CmwqR> || std::is_constructible_v<std::int64_t, CmwqR> ||
		       std::is_enum_v<std::remove_reference_t<CmwqR>>;
	} else {
		return false;
	}
}
template <typename CmwqF> inline constexpr bool posts = is_posted<CmwqF>();

/*
 * What completion_queue::execute() has an item call. A type of its own, so that tools show `CmwqF`.
 */
template <typename CmwqF> struct posted {
	CmwqF func;

	/* noexcept: an exception must not reach the library. */
	static std::int64_t run(void *arg) noexcept
	{
		std::unique_ptr<posted> self(static_cast<posted *>(arg));

		if constexpr (std::is_void_v<std::invoke_result_t<CmwqF &>>) {
			self->func();
			return 0;
		} else {
			return static_cast<std::int64_t>(self->func());
		}
	}
};

} // namespace detail

/*
 * Where items deliver results to a thread that waits in an event loop of its own: see cmwq_cq.h,
 * which has the loop. Each thread that sleeps until there are entries is an owner, and has a
 * completion_queue of its own: clone().
 */
class completion_queue {
public:
	/*
	 * `flags`: CMWQ_CQ_EVENTFD, or 0. `capacity`: how many entries may be submitted or posted
	 * and not drained; 0: any number.
	 */
	explicit completion_queue(unsigned int flags = 0, std::size_t capacity = 0)
	    : completion_queue(cmwq_cq_create(flags, capacity), "cmwq_cq_create")
	{
	}
	completion_queue(completion_queue &&other) noexcept : cq_(std::exchange(other.cq_, nullptr))
	{
	}
	completion_queue &operator=(completion_queue &&other) noexcept
	{
		if (this != &other) {
			cmwq_cq_destroy(cq_);
			cq_ = std::exchange(other.cq_, nullptr);
		}
		return *this;
	}
	/* The last owner's drops what was not drained; what was submitted runs all the same. */
	~completion_queue() { cmwq_cq_destroy(cq_); }

	/* Another owner of the same queue, for another thread. */
	[[nodiscard]] completion_queue clone() const
	{
		return completion_queue(cmwq_cq_clone(cq_), "cmwq_cq_clone");
	}
	/* Whether there is one: false once it was moved from. */
	explicit operator bool() const noexcept { return cq_ != nullptr; }

	/* The eventfd, for epoll and the like. EINVAL: it has none. */
	[[nodiscard]] int fd() const { return detail::checked(cmwq_cq_fd(cq_), "cmwq_cq_fd"); }
	/* Posts an entry, from any thread. ENOSPC: it is full. */
	void post(std::uint64_t token, std::int64_t result)
	{
		detail::checked(cmwq_cq_post(cq_, token, result), "cmwq_cq_post");
	}
	/* The same; false: it is full. */
	[[nodiscard]] bool try_post(std::uint64_t token, std::int64_t result)
	{
		return has_room(cmwq_cq_post(cq_, token, result));
	}
	/*
	 * Runs func() as an item of `wq`, and posts what it returns (an integer; 0 for void) with
	 * `token`. If it throws, the program ends. ENOSPC: it is full. ESHUTDOWN: the workqueue is
	 * being drained.
	 */
	template <typename CmwqF>
	void execute(const workqueue &wq, CmwqF &&func, std::uint64_t token)
	{
		if (!try_execute(wq, std::forward<CmwqF>(func), token))
			detail::fail(ENOSPC, "cmwq_cq_execute");
	}
	/* The same; false: it is full, and `func` was destroyed without a call. */
	template <typename CmwqF>
	[[nodiscard]] bool try_execute(const workqueue &wq, CmwqF &&func, std::uint64_t token)
	{
		constexpr bool fits = detail::posts<std::decay_t<CmwqF> &>;

		static_assert(fits, "cmwq: a completion_queue calls function(), without arguments, "
				    "and posts what it returns, which is an integer or nothing");
		if constexpr (fits) {
			using CmwqItem = detail::posted<std::decay_t<CmwqF>>;
			std::unique_ptr<CmwqItem> item(new CmwqItem{std::forward<CmwqF>(func)});
			cmwq_workqueue *native = wq.native_handle();
			int error = cmwq_cq_execute(cq_, native, CmwqItem::run, item.get(), token);

			if (!has_room(error))
				return false;
			/* The run frees it. */
			(void)item.release();
			return true;
		} else {
			return false;
		}
	}
	/*
	 * Takes up to `max` entries, oldest first; returns how many. Does not wait. This owner is
	 * not armed afterwards.
	 */
	[[nodiscard]] std::size_t drain(cmwq_cqe *entries, std::size_t max)
	{
		return cmwq_cq_drain(cq_, entries, max);
	}
	/*
	 * Has the eventfd made readable by the next entry, until this owner drains: to be called
	 * each time before it sleeps. false: there is something to drain. EINVAL: no eventfd.
	 */
	[[nodiscard]] bool arm()
	{
		return detail::said([&] { return cmwq_cq_arm(cq_); }, "cmwq_cq_arm");
	}
	/*
	 * As drain(), and waits for the first entry; in a work item another item runs meanwhile.
	 * Needs no eventfd.
	 */
	[[nodiscard]] std::size_t wait(cmwq_cqe *entries, std::size_t max)
	{
		return cmwq_cq_wait(cq_, entries, max);
	}
	/* The same, for `timeout` at most. 0: there was nothing. */
	[[nodiscard]] std::size_t wait_for(std::chrono::nanoseconds timeout, cmwq_cqe *entries,
					   std::size_t max)
	{
		return cmwq_cq_wait_timeout_ns(cq_, entries, max, detail::nanoseconds(timeout));
	}
	/* For the functions of cmwq_cq.h. nullptr: it was moved from. */
	cmwq_cq *native_handle() const { return cq_; }

private:
	completion_queue(cmwq_cq *cq, const char *what) : cq_(cq)
	{
		if (!cq_)
			detail::fail(errno, what);
	}
	static bool has_room(int error)
	{
		return error != -ENOSPC && detail::checked(error, "cmwq: posting") == 0;
	}

	cmwq_cq *cq_;
};

} // namespace cmwq

#endif
